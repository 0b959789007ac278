"""The reason why no daemon answers: its settings, its folders, or what the service manager knows of it."""

from __future__ import annotations

from ...ipc.client import Absent


def explained(error: Absent) -> Absent:
    """Return the same error with its cause, where one can be found; looking costs a few processes."""
    if "could not start" in str(error):
        return error  # the daemon itself has said why
    from ..host.service import installed_service

    if cause := _cause_in_settings():
        return Absent(f"{error}. {cause[0]}", cause[1])
    service = installed_service()
    if service is None:
        return error
    if service.failure:
        return Absent(f"{error}. {service.manager} could not start it: {service.failure}", service.remedy)
    return Absent(str(error), f"it is installed; {service.remedy}, and `dreamctl log` shows what it said")


def _cause_in_settings() -> tuple[str, str] | None:
    from ..host import folders
    from ..settings import SettingsError, load

    try:
        folders.refuse_unusable(load())
    except SettingsError as problem:
        return f"Its settings cannot be followed: {problem}", problem.hint
    except folders.UnusableFolder as problem:
        return str(problem), problem.hint
    return None
