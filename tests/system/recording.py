"""What a real daemon answers to every method, recorded once: a small memory, a dream, a review, an undo."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

from dreamd.store.channel import channel_of_folder

from tests.bench.daemon_under_test import DaemonUnderTest, Refused
from tests.pipelines.stages.test_know_how import RELEASED
from tests.system.waiting import until

SAID = [
    "My name is Anna and I work as a nurse in Lisbon.",
    "We keep the backups on the blue disk, since 3 March 2026.",
    "I prefer tea to coffee, and I never drink coffee after noon.",
    "My brother Tom bought a red bicycle last week.",
    "We chose PostgreSQL for the orders service because of its constraints.",
]
NOTE = "---\ntitle: The garden\nchannel: elsewhere\n---\nThe wisteria was pruned in February.\n"
LEAK = "---\ntype: Note\n---\nThe old key was AKIAIOSFODNN7EXAMPLE, of the AWS account.\n"
BROKEN = "---\ntype: [unclosed\n---\nThe marmalade recipe needs nine lemons.\n"
LONG = " ".join(f"Shelf number {number} of the attic holds lamp {number} and its shade." for number in range(60))
IN_VAIN = "Which colour has the bicycle of my brother Tom?"
NO_MODEL = {
    "DREAMD_LLM__PROVIDER": "openai_compatible",
    "DREAMD_LLM__MODEL": "none",
    "DREAMD_LLM__BASE_URL": "http://127.0.0.1:9/v1",
}
"""A language model that does not answer, so that `status` has something to say of it."""


class Recording:
    """Asks a daemon, and keeps each answer by its method."""

    def __init__(self, daemon: DaemonUnderTest, folder: Path) -> None:
        self.daemon = daemon
        self.project = folder / "orders"
        self.project.mkdir(parents=True)
        self.empty = folder / "empty"
        self.empty.mkdir()
        self.orders = channel_of_folder(self.project)
        self.answers: dict[str, list[Any]] = defaultdict(list)
        self.named: dict[str, Any] = {}

    def ask(self, method: str, called: str = "", /, **params: Any) -> Any:
        """Ask, keep the answer, by a name of its own too, and return it."""
        answer = self.daemon.call(method, **params)
        self.answers[method].append(answer)
        if called:
            self.named[called] = answer
        return answer

    def everything(self) -> None:
        """Go through every method once or more; some answers only come about in this order."""
        self._begin()
        self._keep()
        self._work()
        self._find()
        self._dream()
        self._decide()
        self._take_back()
        self._look_after()

    def _begin(self) -> None:
        self.ask("hello", client="recording", protocol=1)
        self.ask("ping")
        self.ask("cancel", id=99)
        self.ask("status", "status of an empty memory")
        vault = self.daemon.folder / "data" / "vault"
        self.daemon.call("recall", query=IN_VAIN, cwd=str(self.project))
        (vault / "leak.md").write_text(LEAK)
        (vault / "broken.md").write_text(BROKEN)

    def _keep(self) -> None:
        chat = self.project / "chat.jsonl"
        lines = []
        for number, text in enumerate(SAID):
            at = f"2026-11-{10 + number:02}T10:00:00+00:00"
            turn = {"session_id": "orders", "channel": self.orders, "timestamp": at}
            lines.append(turn | {"role": "user", "content": text, "id": f"m{number}"})
            lines.append(turn | {"role": "assistant", "content": "Noted.", "id": f"a{number}"})
        chat.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{broken\n")
        note = self.project / "garden.md"
        note.write_text(NOTE)
        nowhere = str(self.project / "nowhere.jsonl")
        self.ask("import", "an import", paths=[str(chat), str(note), nowhere])
        self.ask("import", "the same again", paths=[str(chat)])
        diary = self.project / "diary.md"
        diary.write_text("2026-03-02: The rent of the kiln is 90 euros a month.\n\nMilk.\n")
        self.ask("learn", "what was learned", paths=[str(diary), nowhere], channel="kiln")
        self._follow()
        session = {"session_id": "talk", "cwd": str(self.project)}
        turns = [{"role": "user", "text": "The orders service runs on port 8443.", "external_id": "t1"}]
        self.ask("observe", session=session, turns=turns)
        self.bread = self.ask("remember", text="Bread is baked on Saturdays.", tags=["food"], channel="kitchen")[
            "node_id"
        ]
        self.daemon.call("remember", text=LONG, channel="attic")
        self.daemon.call("list")  # which waits until all of it is visible
        self.daemon.wait_until_embedded(120)
        self.ask("brief", channel="kitchen")

    def _work(self) -> None:
        here = {"cwd": str(self.project)}
        at_work = {"session": "work", "decisions": ["the blue disk stays"], "next_step": "copy"}
        self.ask("anchor_set", task="move the backups", plan="docs/backups.md", **at_work, **here)
        self.ask("anchor_get", session="work")
        self.ask("anchor_recover", "an anchor recovered", session="another", **here)
        goal = self.ask("goal_set", session="work", text="the backups are moved", **here)
        self.ask("goal_set", session="work", text="the disk is mounted", parent=goal["goal_id"], **here)
        learned = [{"text": "Mount the blue disk before the copy."}]
        self.ask("reflect", "a reflection", session="work", learned=learned, outcome="Half of it is copied.", **here)
        self.ask("reflect", session="work", learned=learned, **here)
        question = [{"role": "user", "text": "To which disk do the backups go?", "external_id": "q1"}]
        self.daemon.call("observe", session={"session_id": "work", **here}, turns=question)
        self.ask("session_end", session="work")
        self.ask("goals", "open threads", session="work", **here)
        self.ask("tag", node_id=self.bread, add=["baking"])
        self.ask("edit", node_id=self.bread, tags=["food", "baking", "rye"])
        for name, also in (("Graça Moreira", ["Graça", "Gigi"]), ("Gracinha", [])):
            self._page_of(name, also)
        people = {one["name"]: one["node_id"] for one in self.ask("entities", channel="kitchen")["entities"]}
        self.ask("about", name="graca", channel="kitchen")
        self.ask("entity_merge", node_id=people["Graça Moreira"], other=people["Gracinha"])
        self.ask("entity_split", node_id=people["Graça Moreira"], names=["Gigi"])
        self.ask("entity_deny", node_id=people["Graça Moreira"], relation="Gracinha owns the oven")
        assert self.ask("recall", "an exact answer", query="who owns the oven?", channel="kitchen")["exact"]
        recipe = {"space": ["recipes"], "key": "tart.md"}
        self.ask("document_put", value="Tart: nine lemons.", ttl_minutes=60, **recipe, **here)
        self.ask("document_get", **recipe)
        self.ask("document_get", space=["recipes"], key="nowhere")
        self.ask("document_put", space=["recipes"], key="cake.md", value={"lemons": 9}, **here)
        self.ask("document_list", "a page of documents", limit=1)
        self.ask("document_list", "all documents")
        self.ask("document_search", query="lemons")
        self.ask("document_rename", **recipe, to="loaf.md")
        self.ask("document_delete", space=["recipes"])
        self.ask("document_delete", "nothing to delete", space=["recipes"])
        salt = self.ask("remember", text="The salt stands beside the oven.", channel="kitchen")["node_id"]
        self.ask("link", **{"from": self.bread, "to": salt})
        self.ask("link", **{"from": self.bread, "to": "weekly", "relation": "HasTag"})

    def _page_of(self, name: str, also: list[str]) -> None:
        """Write the page of a person by hand, as a dream would."""
        file = self.daemon.folder / "data" / "vault" / "people" / f"{name.split()[0]}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        owns = {"title": f"{self.bread}", "subject": name, "relation": "OWNS", "object": "the oven", "words": "Hers."}
        keys: dict[str, Any] = {"title": name, "type": "Entity", "kind": "entity", "level": "L3", "channel": "kitchen"}
        keys |= {
            "node_id": f"page-{name.split()[-1].lower()}",
            "entity": "person",
            "aliases": also,
            "relations": [owns],
        }
        lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]
        file.write_text("\n".join(["---", *lines, "---", "", f"# {name}", ""]))
        until(lambda: self.daemon.call("about", name=name, channel="kitchen")["entities"])

    def _follow(self) -> None:
        sessions = self.daemon.folder / "agent"
        sessions.mkdir()
        line = {"type": "user", "uuid": "u1", "sessionId": "weaving", "cwd": "/nowhere/attic"}
        said = line | {"message": {"role": "user", "content": "The loom in the attic needs a new reed."}}
        (sessions / "weaving.jsonl").write_text(json.dumps(said) + "\n")
        self.ask("watch", "what would be watched", path=str(sessions), dry_run=True)
        self.daemon.call("pause")  # so that the backlog stays for a moment
        self.ask("watch", "what is watched", path=str(sessions))
        until(lambda: self.daemon.call("status")["transcripts"]["backlog"])
        self.ask("status", "status of a memory that waits")
        self.daemon.call("resume")
        until(lambda: self.daemon.call("status")["transcripts"]["turns"])
        (sessions / "knitting.jsonl").write_text(json.dumps(said | {"uuid": "u2", "sessionId": "knitting"}) + "\n")
        until(lambda: self.daemon.call("status")["transcripts"]["active"])
        self.ask("status", "status of a memory that follows")
        self.ask("unwatch", path=str(sessions))

    def _find(self) -> None:
        here = {"cwd": str(self.project)}
        self.ask("recall", "a recall", query="backups blue disk", **here)
        asked = {"query": "port of the orders service", "explain": True, "why_not": self.bread}
        self.ask("recall", "an explained recall", **asked, **here)
        self.ask("recall", "several recalls", queries=["backups blue disk", "red bicycle"], min_score=0.01, **here)
        self.ask("recall", "a part of a long note", query="which shelf holds the lamp?", channel="attic")
        self.ask("recall", "nothing anywhere", query="zxqv", levels=["L3"], **here)
        self.ask("recall", "elsewhere", query="red bicycle", levels=["L0"], cwd=str(self.empty))
        asking = {"session": "asking", "agent_id": "claude-code"}
        self.ask("context", "a context", query="which disk are the backups on?", **asking, **here)
        self.ask("context", "no context here", query="red bicycle", cwd=str(self.empty))
        given = {"session_id": "asking", "prompt": "which disk are the backups on?"}
        self.ask("hook", agent="claude-code", event="UserPromptSubmit", given=given, **here)
        self.ask("told", "what was told")
        self.ask("recent", **here)
        self.ask("list", "a page", limit=1)
        self.ask("list", "a list", limit=1000)
        self.ask("list", "tags", tags=True)
        self.ask("show", "a memory", node_id=self.bread)
        self.ask("history", node_id=self.bread)
        self.ask("recall", like=self.bread)

    def _dream(self) -> None:
        self.ask("dream", "a dry run", dry_run=True, wait=True)
        self.ask("dream", "a dream begun")
        until(self._paused)
        self.ask("status", "status of a dream")
        self.ask("dream_resume")
        self.ask("dream_cancel")
        until(lambda: self.daemon.call("status")["dream"] is None)
        self.dreamt = self.ask("dream", "a dream", wait=True)
        self.ask("status", "status after a dream")
        facts = self.daemon.call("list", level="L1", channel=self.orders)["memories"]
        shown = [self.daemon.call("show", node_id=fact["node_id"]) for fact in facts]
        self.fact = next(fact for fact in shown if fact["evidence"])  # drawn from a turn
        self.ask("show", "a fact", node_id=self.fact["node_id"])
        self.ask("recall", "a fact recalled", query=self.fact["text"], channel=self.orders)
        self.ask("runs", "the runs", all=True)
        self.ask("run", "what a run changed", run_id=self.dreamt["run_id"])
        self.ask("digest", "a digest")
        self.ask("decay_preview", "what fades", days=3650)
        self.ask("decay_preview", "what fades tomorrow", days=1)
        self._contradict(self.fact)
        self.ask("review_list", "what waits")

    def _contradict(self, fact: Any) -> None:
        """Write a file by hand that rests on the same turn and says that it contradicts a fact."""
        vault = self.daemon.folder / "data" / "vault"
        text = (vault / fact["path"]).read_text()
        link = f"contradicts: [{fact['node_id']}]\n"
        text = re.sub(r"node_id: \"?\w+\"?, ", "", text, count=1).replace(
            "---\n", f'---\nnode_id: "byhand0000000"\n{link}', 1
        )
        (vault / "by-hand.md").write_text(text.replace("its constraints.", "its speed."))
        until(lambda: self.daemon.call("review_list")["decisions"])

    def _paused(self) -> bool:
        try:
            self.ask("dream_pause")
        except Refused:  # it is between two steps
            return False
        return True

    def _take_back(self) -> None:
        turn = self.fact["evidence"][0]["node_id"]
        forgotten = self.ask("forget", "a turn forgotten", node_id=turn)
        self.ask("undo", "a forget undone", run_id=forgotten["run_id"])
        self.ask("redo", run_id=forgotten["run_id"])
        self.ask("undo", run_id=forgotten["run_id"], items=[self.fact["node_id"]])
        self.ask("undo", run_id=forgotten["run_id"])
        self.ask("redo", "a forget done again", run_id=forgotten["run_id"])
        self.ask("undo", run_id=forgotten["run_id"])
        file = self.daemon.folder / "data" / "vault" / self.daemon.call("show", node_id=self.fact["node_id"])["path"]
        file.write_text(file.read_text() + "\nSo it is.\n")
        until(lambda: "So it is." in self.daemon.call("show", node_id=self.fact["node_id"])["text"])
        self.ask("undo", "a dream undone", run_id=self.dreamt["run_id"])
        self.ask("digest", "a digest of a dream undone")
        bread = self.daemon.folder / "data" / "vault" / self.daemon.call("show", node_id=self.bread)["path"]
        bread.unlink()
        until(lambda: self.daemon.call("runs", kind="deleted")["runs"])
        self.ask("runs", "a deletion", kind="deleted")
        self.ask("restore", node_id=self.bread)
        self.ask("feedback", node_id=self.bread, verdict="not-useful")

    def _decide(self) -> None:
        said = {"text": "Copy the ledger to the tape before anything else.", "kind": "procedure", "always": True}
        written = self.ask("remember", "what an agent wrote down", agent_id="a-stranger", **said)
        waiting = self.ask("review_list")["decisions"]
        decision = waiting[0]["decision_id"]
        self.ask("review_decide", "a decision", decision=decision, keep="newer", by="anna")
        self.ask("review_decide", "a memory accepted", decision=written["node_id"], keep="accept", by="anna")
        self.ask("review_list", "nothing waits")
        self.ask("list", "a list with texts", texts=True, limit=100)

    def _look_after(self) -> None:
        self.ask("pause")
        self.ask("status", "status of a paused memory")
        self.ask("resume")
        self.ask("channel", "a channel", name="kitchen", learning=False)
        self.ask("check", "a check")
        self.ask("rebuild")
        self.ask("migrate", "a move that is only shown", dry_run=True)
        self.ask("metrics")
        self.ask("doctor", files=False)
        self.ask("prove", path=str(self.empty.parent / "proof.html"))
        self.ask("export", path=str(self.empty.parent / "all.jsonl"), form="jsonl")
        self.ask("backup", path=str(self.empty.parent))
        self.ask("sync_init", remote=str(self.empty.parent / "remote.git"))
        self.ask("sync")
        self.ask("sync_set", "a channel that stays", channel="kitchen", setting="off")
        self.ask("sync_status")
        self._share()
        self.ask("purge", "a purge that is only shown", channel="kitchen", dry_run=True)
        self.ask("purge", "the past questions", probes=True)
        self.ask("purge", channel="kitchen")
        until(lambda: self.daemon.call("status")["dream"] is None)  # one of its own may have begun
        self.ask("status", "status")
        self._know_how()
        self.ask("page_open")
        self._with_a_server()
        self.ask("stop")

    def _share(self) -> None:
        """Share a memory with the colleagues of a project, by its remote, and withdraw it."""
        shop = self.empty.parent / "shop"
        for command in (
            ("init", "--quiet", "--bare", f"{shop}.git"),
            ("clone", "--quiet", f"{shop}.git", str(shop)),
            ("-C", str(shop), "config", "user.name", "Anna"),
            ("-C", str(shop), "config", "user.email", "anna@shop.example"),
        ):
            subprocess.run(("git", *command), check=True, capture_output=True)
        here = {"cwd": str(shop)}
        node = self.daemon.call("remember", text="The shop's port is 8080.", kind="decision", **here)["node_id"]
        shown = self.ask("team_share", "an entry that is shown", node_id=node, **here)
        self.ask("team_share", node_id=node, seen=shown["memory"]["entry_id"], **here)
        self.ask("team_list", **here)
        self.ask("team_sync", **here)
        self.ask("team_unshare", name=node, **here)

    def _with_a_server(self) -> None:
        """Ask another daemon, whose settings name a server that `store.dsn` does not."""
        environ = self.daemon.environ | {"DREAMD_STORE__BACKEND": "qdrant"}
        mine = {name: value for name, value in environ.items() if name.startswith("DREAMD_STORE")}
        with DaemonUnderTest(self.empty.parent / "served", mine) as other:
            self.answers["status"].append(answer := other.call("status"))
            self.named["status with a server"] = answer

    def _know_how(self) -> None:
        """Have a procedure work in three sessions, and a line of a program's file said otherwise, then dream."""
        git = self.empty.parent / "release" / ".git"
        git.mkdir(parents=True)
        (git / "HEAD").write_text("ref: refs/heads/main\n")
        here = {"cwd": str(git.parent)}
        file = git.parent / "AGENTS.md"
        file.write_text("# Rules\n\n- We deploy on Thursdays.\n")
        os.utime(file, (0, 0))
        given = {"session_id": "r0", "source": "startup", **here}
        self.daemon.call("hook", agent="codex", event="SessionStart", given=given, **here)
        for name in ("r1", "r2", "r3"):
            turns = [
                {"role": role, "text": text, "external_id": f"{name}-{at}", "at": f"2026-11-20T10:00:{at:02}+00:00"}
                for at, (role, text) in enumerate(RELEASED)
            ]
            self.daemon.call("observe", session={"session_id": name, "agent_id": "codex", **here}, turns=turns)
        self.daemon.call("remember", text="We deploy on Tuesdays now, not Thursdays.", **here)
        self.daemon.call("list")
        self.daemon.wait_until_embedded(120)
        self.daemon.call("dream", wait=True)
        self.ask("review_list", "what worked")
        self.ask("find_strategy", query="release the next version", **here)
        offered = [{"name": "mcp__tracker__open", "description": "open a ticket"}, {"name": "Bash"}]
        self.ask("select_tools", query="release the next version", tools=offered, k=1)
        self.ask("tools", **here)
