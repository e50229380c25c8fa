"""The typed description of each task, and what can be said of it without making data.

Importing this file brings neither torch nor numpy: a sweep can be planned on a machine that has neither in reach.
Only levels without a closed form (``ParenthesesConfig.chance`` and the like) load the generators when asked for.
Formats follow the note on the spline probe, section 1; where the published sources differ, the field says so.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from jobs.tasks.config_streams import (
    AddConfig,
    AddreversedConfig,
    CopyConfig,
    HaystackConfig,
    ManoConfig,
    ParenthesesConfig,
)
from jobs.tasks.config_tables import AddmodConfig, MemorizeConfig

__all__ = [
    "AddConfig",
    "AddmodConfig",
    "AddreversedConfig",
    "CopyConfig",
    "HaystackConfig",
    "ManoConfig",
    "MemorizeConfig",
    "ParenthesesConfig",
    "TaskConfig",
]

TaskConfig = Annotated[
    MemorizeConfig
    | ParenthesesConfig
    | AddmodConfig
    | HaystackConfig
    | AddConfig
    | AddreversedConfig
    | CopyConfig
    | ManoConfig,
    Field(discriminator="name"),
]
