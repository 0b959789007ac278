"""The type of a call: the answer that `answers.py` declares for each method, by the method's name.

A test holds it to the table there; nothing but the standard library is imported when it runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

if TYPE_CHECKING:
    from .answers import (
        CancelAnswer,
        ChannelAnswer,
        CheckAnswer,
        ContextAnswer,
        DecayAnswer,
        DecidedAnswer,
        DigestAnswer,
        DocumentGetAnswer,
        DocumentListAnswer,
        DocumentMovedAnswer,
        DocumentPutAnswer,
        DocumentSearchAnswer,
        DreamAnswer,
        EmptyAnswer,
        FeedbackAnswer,
        ForgetAnswer,
        FoundAnchorAnswer,
        GoalAnswer,
        GoalsAnswer,
        HelloAnswer,
        HookAnswer,
        ImportAnswer,
        LinkAnswer,
        ListAnswer,
        ObserveAnswer,
        PauseAnswer,
        PendingAnswer,
        PlaceAnswer,
        PurgeAnswer,
        RebuildAnswer,
        RecallAnswer,
        ReflectAnswer,
        RememberAnswer,
        RestoreAnswer,
        ReviewAnswer,
        RunsAnswer,
        SessionEndAnswer,
        ShowAnswer,
        StatusAnswer,
        SteeredAnswer,
        StopAnswer,
        TagAnswer,
        ThoughtAnswer,
        UndoAnswer,
        WatchAnswer,
        WorkingAnswer,
    )

Params = Mapping[str, Any] | None
OnProgress = Callable[[dict[str, Any]], None] | None


class AsyncCall(Protocol):
    """Asks a method, and answers what `answers.py` declares for it."""

    @overload
    def __call__(
        self, method: Literal["hello"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[HelloAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["ping"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[EmptyAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["cancel"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[CancelAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["recall"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[RecallAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["context"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[ContextAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["remember"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[RememberAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["observe"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[ObserveAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["show"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[ShowAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["list"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[ListAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["forget"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[ForgetAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["feedback"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[FeedbackAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["link"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[LinkAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["tag"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[TagAnswer]: ...

    @overload
    def __call__(
        self,
        method: Literal["anchor_set", "anchor_get", "anchor_recover"],
        params: Params = None,
        on_progress: OnProgress = None,
    ) -> Awaitable[FoundAnchorAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["reflect"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[ReflectAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["goal_set"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[GoalAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["goals"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[GoalsAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["session_end"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[SessionEndAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["thought"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[ThoughtAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["working_get"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[WorkingAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["pending"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[PendingAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["document_put"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[DocumentPutAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["document_get"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[DocumentGetAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["document_list"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[DocumentListAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["document_search"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[DocumentSearchAnswer]: ...

    @overload
    def __call__(
        self,
        method: Literal["document_rename", "document_delete"],
        params: Params = None,
        on_progress: OnProgress = None,
    ) -> Awaitable[DocumentMovedAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["purge"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[PurgeAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["status"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[StatusAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["import"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[ImportAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["watch"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[WatchAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["unwatch"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[PlaceAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["dream"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[DreamAnswer]: ...

    @overload
    def __call__(
        self,
        method: Literal["dream_pause", "dream_resume", "dream_cancel"],
        params: Params = None,
        on_progress: OnProgress = None,
    ) -> Awaitable[SteeredAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["runs"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[RunsAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["undo"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[UndoAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["digest"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[DigestAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["decay_preview"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[DecayAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["restore"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[RestoreAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["review_list"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[ReviewAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["review_decide"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[DecidedAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["rebuild"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[RebuildAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["check"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[CheckAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["pause", "resume"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[PauseAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["channel"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[ChannelAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["stop"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[StopAnswer]: ...

    @overload
    def __call__(
        self, method: Literal["hook"], params: Params = None, on_progress: OnProgress = None
    ) -> Awaitable[HookAnswer]: ...

    @overload
    def __call__(self, method: str, params: Params = None, on_progress: OnProgress = None) -> Awaitable[Any]: ...

    def __call__(self, method: str, params: Params = None, on_progress: OnProgress = None) -> Awaitable[Any]:
        """Return the method's result."""
        ...
