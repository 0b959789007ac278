"""The Open Knowledge Format: one file's frontmatter and body, and the memories and sessions that are such files."""

from ..vault.layout import SLUG_BYTES, channel_folder, path_for, slug
from .file import OkfFile, edit, has_frontmatter, parse, render, with_body_of
from .memory_file import (
    OKF_VERSION,
    PRODUCER,
    fact_id,
    fact_ids,
    from_memory,
    instant,
    is_edited,
    is_fact_id,
    node_id_of_path,
    source_ids,
    to_memory,
    type_of,
)

__all__ = [
    "OKF_VERSION",
    "PRODUCER",
    "SLUG_BYTES",
    "OkfFile",
    "channel_folder",
    "edit",
    "fact_id",
    "fact_ids",
    "from_memory",
    "has_frontmatter",
    "instant",
    "is_edited",
    "is_fact_id",
    "node_id_of_path",
    "parse",
    "path_for",
    "render",
    "slug",
    "source_ids",
    "to_memory",
    "type_of",
    "with_body_of",
]
