"""The ledger's tables, as the numbered steps that made them; a step that has shipped is never edited."""

from __future__ import annotations

from typing import Final

from ..engine.database import Migration

MIGRATIONS: Final = (
    Migration(
        "m001_journal",
        # state: '' waits for its file (or for the file's fsync), 'conflict' is kept because a person's file won.
        """
        CREATE TABLE journal (
            seq         INTEGER PRIMARY KEY,
            kind        TEXT NOT NULL,
            path        TEXT NOT NULL,
            content     BLOB,
            from_offset INTEGER NOT NULL,
            pre_sha256  TEXT,
            run_id      TEXT,
            ordinal     INTEGER,
            state       TEXT NOT NULL DEFAULT '',
            kept_at     TEXT
        );
        """,
    ),
    Migration(
        "m002_history",
        """
        CREATE TABLE run (
            run_id     TEXT PRIMARY KEY,
            kind       TEXT NOT NULL,
            state      TEXT NOT NULL,
            started_at TEXT NOT NULL,
            ended_at   TEXT,
            undone_at  TEXT,
            expired    INTEGER NOT NULL DEFAULT 0,
            summary    TEXT NOT NULL DEFAULT '{}'
        ) WITHOUT ROWID;
        CREATE INDEX run_by_start ON run (started_at DESC);
        CREATE TABLE action (
            id          INTEGER PRIMARY KEY,
            run_id      TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
            ordinal     INTEGER NOT NULL,
            kind        TEXT NOT NULL,
            path        TEXT NOT NULL,
            node_id     TEXT NOT NULL,
            stage       TEXT NOT NULL,
            reason      TEXT NOT NULL,
            fingerprint TEXT,
            state       TEXT NOT NULL,
            refusal     TEXT,
            pre_sha256  TEXT,
            post_sha256 TEXT,
            pre_image   BLOB,
            post_image  BLOB,
            UNIQUE (run_id, ordinal)
        );
        CREATE TABLE tombstone (
            fingerprint TEXT PRIMARY KEY,
            run_id      TEXT NOT NULL,
            at          TEXT NOT NULL,
            reason      TEXT NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE cursor (
            stage      TEXT NOT NULL,
            session_id TEXT NOT NULL,
            ordinal    INTEGER NOT NULL,
            PRIMARY KEY (stage, session_id)
        ) WITHOUT ROWID;
        """,
    ),
    Migration(
        "m003_observations",
        """
        CREATE TABLE event (
            id      INTEGER PRIMARY KEY,
            at      TEXT NOT NULL,
            kind    TEXT NOT NULL,
            node_id TEXT,
            detail  TEXT
        );
        CREATE TABLE usage (
            node_id   TEXT PRIMARY KEY,
            shown     INTEGER NOT NULL,
            last_at   TEXT NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE feedback (
            id      INTEGER PRIMARY KEY,
            at      TEXT NOT NULL,
            node_id TEXT NOT NULL,
            verdict TEXT NOT NULL,
            query   TEXT
        );
        CREATE INDEX feedback_by_node ON feedback (node_id);
        CREATE TABLE probe (
            id      INTEGER PRIMARY KEY,
            at      TEXT NOT NULL,
            query   TEXT NOT NULL,
            channel TEXT NOT NULL,
            gold    TEXT NOT NULL,
            source  TEXT NOT NULL
        );
        CREATE TABLE flag (
            name  TEXT PRIMARY KEY,
            value TEXT NOT NULL
        ) WITHOUT ROWID;
        """,
    ),
    Migration(
        "m004_questions",
        # What was asked, once a channel ('' where none was given). shown, gold: node ids, JSON. near: what was shown
        # was near the question. declined: an agent or a person said that it did not help.
        """
        DROP TABLE probe;
        CREATE TABLE question (
            id       INTEGER PRIMARY KEY,
            channel  TEXT NOT NULL,
            text     TEXT NOT NULL,
            times    INTEGER NOT NULL DEFAULT 1,
            last_at  TEXT NOT NULL,
            shown    TEXT NOT NULL,
            near     INTEGER NOT NULL,
            gold     TEXT NOT NULL DEFAULT '[]',
            declined INTEGER NOT NULL DEFAULT 0,
            UNIQUE (channel, text)
        );
        CREATE INDEX question_by_time ON question (last_at);
        """,
    ),
    Migration(
        "m005_counters",
        # reinforcement: how often a memory was said again, and when last; a count is no change to its file, and no run.
        """
        CREATE TABLE reinforcement (
            node_id TEXT PRIMARY KEY,
            times   INTEGER NOT NULL,
            last_at TEXT NOT NULL
        ) WITHOUT ROWID;
        CREATE INDEX run_by_kind ON run (kind, started_at DESC);
        """,
    ),
    Migration(
        "m006_withheld",
        # Files that vanished and are not believed to be deleted; image: what was last read of one, packed.
        """
        CREATE TABLE withheld (
            path  TEXT PRIMARY KEY,
            since TEXT NOT NULL,
            image BLOB
        );
        CREATE INDEX action_by_path ON action (path);
        """,
    ),
    Migration(
        "m007_working",
        # Of each session what its agent is doing (decisions: JSON) and its goals. thread_since: the session ended, and
        # the goal was open.
        """
        CREATE TABLE anchor (
            session_id TEXT PRIMARY KEY,
            channel    TEXT NOT NULL,
            at         TEXT NOT NULL,
            ended_at   TEXT,
            task       TEXT NOT NULL,
            plan       TEXT NOT NULL,
            decisions  TEXT NOT NULL,
            next_step  TEXT NOT NULL
        ) WITHOUT ROWID;
        CREATE INDEX anchor_by_channel ON anchor (channel, at DESC);
        CREATE TABLE goal (
            goal_id      TEXT PRIMARY KEY,
            session_id   TEXT NOT NULL,
            channel      TEXT NOT NULL,
            text         TEXT NOT NULL,
            state        TEXT NOT NULL,
            parent       TEXT,
            opened_at    TEXT NOT NULL,
            at           TEXT NOT NULL,
            thread_since TEXT
        ) WITHOUT ROWID;
        CREATE INDEX goal_by_session ON goal (session_id, opened_at);
        CREATE INDEX goal_by_channel ON goal (channel, at DESC);
        """,
    ),
    Migration(
        "m008_answered",
        # What a write that may be sent again was answered, by the hash of its key.
        """
        CREATE TABLE answered (
            key    TEXT PRIMARY KEY,
            at     TEXT NOT NULL,
            answer TEXT NOT NULL
        ) WITHOUT ROWID;
        CREATE INDEX answered_by_time ON answered (at);
        """,
    ),
    Migration(
        "m009_followed",
        # How far files of other programs were read. key: the hash of a path, so that nothing here has to be purged;
        # size: of what was read, in bytes and lines; head: the hash of its beginning, by which it is known again.
        """
        CREATE TABLE followed (
            key   TEXT PRIMARY KEY,
            size  INTEGER NOT NULL,
            lines INTEGER NOT NULL,
            head  TEXT NOT NULL
        ) WITHOUT ROWID;
        """,
    ),
    Migration(
        "m010_handed",
        # What an agent's session was handed (lines: JSON), what that cost it, and how often it was asked. key: the hash
        # of agent and session.
        """
        CREATE TABLE handed (
            key     TEXT PRIMARY KEY,
            at      TEXT NOT NULL,
            tokens  INTEGER NOT NULL,
            prompts INTEGER NOT NULL,
            lines   TEXT NOT NULL
        ) WITHOUT ROWID;
        CREATE INDEX handed_by_time ON handed (at);
        """,
    ),
    Migration(
        "m011_ranking",
        # Weights of the ranking that a run of an earlier version fitted. No longer read or written; the table stays, as
        # a migration that has run anywhere is never changed.
        """
        CREATE TABLE ranking (
            run_id    TEXT PRIMARY KEY,
            scorer    TEXT NOT NULL,
            weights   TEXT NOT NULL,
            questions INTEGER NOT NULL
        ) WITHOUT ROWID;
        """,
    ),
    Migration(
        "m013_told",
        # Texts that agents were handed (lines: JSON, each a text, the node that it is of, and what became of it), and
        # moments whose text never arrived. id: the time in microseconds.
        """
        CREATE TABLE told (
            id         INTEGER PRIMARY KEY,
            at         TEXT NOT NULL,
            session_id TEXT NOT NULL,
            channel    TEXT NOT NULL,
            agent      TEXT NOT NULL,
            moment     TEXT NOT NULL,
            tokens     INTEGER NOT NULL,
            answered   INTEGER NOT NULL,
            lost       TEXT NOT NULL,
            lines      TEXT NOT NULL
        );
        CREATE INDEX told_by_session ON told (session_id, id);
        """,
    ),
    Migration(
        "m014_anchor_seen",
        # What hooks saw of a session's work: its last prompt, the files it changed (JSON), the command that failed.
        """
        ALTER TABLE anchor ADD COLUMN asked TEXT NOT NULL DEFAULT '';
        ALTER TABLE anchor ADD COLUMN edited TEXT NOT NULL DEFAULT '[]';
        ALTER TABLE anchor ADD COLUMN failing TEXT NOT NULL DEFAULT '';
        """,
    ),
    Migration(
        "m015_history_of_nodes",
        # event: an undo or a redo of a node, or an answer that had it (detail: JSON).
        """
        CREATE INDEX event_by_node ON event (node_id, id);
        CREATE INDEX action_by_node ON action (node_id, id);
        """,
    ),
)
