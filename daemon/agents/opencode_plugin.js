// Written by `dreamctl connect opencode`, and removed by `dreamctl disconnect opencode`.
// It asks dreamd's hook at the moments of a session, and puts what that has to say into the system prompt.
// Whatever goes wrong, opencode goes on: a hook that fails or takes too long says nothing.
import { execFile } from "node:child_process"

const COMMAND = @COMMAND@
const VARIABLES = @VARIABLES@
const TIMEOUT_MS = 5000

function ask(moment, given) {
  return new Promise((resolve) => {
    const environment = { ...process.env, ...VARIABLES }
    const options = { timeout: TIMEOUT_MS, env: environment, maxBuffer: 1 << 20 }
    const child = execFile(COMMAND, ["hook", "opencode", moment], options, (error, stdout) => {
      try {
        resolve(error || !stdout ? "" : JSON.parse(stdout).additionalContext || "")
      } catch {
        resolve("")
      }
    })
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(given))
  })
}

const textOf = (parts) =>
  (parts || [])
    .filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
    .map((part) => part.text)
    .join("\n")

export const Dreamd = async ({ client, directory }) => {
  const sessions = new Map() // by id: the texts in the system prompt, and the exchange that is not kept yet
  const nested = new Set() // sessions of sub-agents

  async function session(id) {
    let known = sessions.get(id)
    if (!known) {
      known = { texts: [], prompt: "", turn: "" }
      sessions.set(id, known)
      const text = await ask("start", { session_id: id, cwd: directory, source: "startup" })
      if (text) known.texts.push(text)
    }
    return known
  }

  async function answered(id) {
    const known = sessions.get(id)
    if (!known || !known.prompt) return
    const { prompt, turn } = known
    known.prompt = ""
    let said = ""
    let answer = ""
    try {
      const { data } = await client.session.messages({ path: { id } })
      const last = (data || []).filter((message) => message.info.role === "assistant").pop()
      said = last ? textOf(last.parts) : ""
      answer = last ? last.info.id : ""
    } catch {
      said = "" // the prompt alone is kept
    }
    const ids = { session_id: id, cwd: directory, turn_id: turn, answer_id: answer }
    await ask("answered", { ...ids, prompt, last_assistant_message: said })
  }

  return {
    event: async ({ event }) => {
      const of = event.properties || {}
      if (event.type === "session.created" && of.info?.parentID) nested.add(of.info.id)
      if (event.type === "session.idle" && of.sessionID) await answered(of.sessionID)
      if (event.type === "session.deleted" && of.info) sessions.delete(of.info.id)
    },
    "chat.message": async (input, output) => {
      if (nested.has(input.sessionID)) return
      const known = await session(input.sessionID)
      known.prompt = textOf(output.parts)
      known.turn = output.message?.id || ""
      const given = { session_id: input.sessionID, cwd: directory, turn_id: known.turn, prompt: known.prompt }
      const text = await ask("prompt", given)
      if (text) known.texts.push(text)
    },
    "experimental.chat.system.transform": async (input, output) => {
      const known = sessions.get(input.sessionID)
      if (known) output.system.push(...known.texts)
    },
    "experimental.session.compacting": async (input) => {
      const known = sessions.get(input.sessionID)
      if (!known) return
      await ask("compacting", { session_id: input.sessionID, cwd: directory })
      const text = await ask("start", { session_id: input.sessionID, cwd: directory, source: "compact" })
      known.texts = text ? [text] : []
    },
  }
}
