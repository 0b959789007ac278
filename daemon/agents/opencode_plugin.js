// Written by `dreamctl connect opencode`, and removed by `dreamctl disconnect opencode`.
// It asks dreamd's hook at the moments of a session. What that has to say goes before the prompt in the requests to the
// model, at the same place in each, and nowhere else: not into the system prompt, which begins what a provider has
// cached, nor into what opencode keeps, or asks a title of.
// Whatever goes wrong, opencode goes on: a hook that fails or takes too long says nothing.
import { execFile } from "node:child_process"

const COMMAND = @COMMAND@
const VARIABLES = @VARIABLES@
const TIMEOUT_MS = 5000
// Characters of a text in a message, and of the messages in one call: a line of the wire has a bound of a megabyte, and a
// character takes six bytes there at most.
const LONGEST_TEXT = 100000
const LONGEST_CALL = 150000
const LONGEST_OUTPUT = 20000
// The tools whose calls recall something: a read before an edit, and a command that failed.
const TOOLS = new Set(["bash", "read", "edit", "write"])

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

// A message as JSON, with its long texts cut until it fits into a call.
function shortened(message) {
  for (let longest = LONGEST_TEXT; ; longest = longest >> 1) {
    const cut = (_, value) => (typeof value === "string" ? value.slice(0, longest) : value)
    const text = JSON.stringify(message, cut)
    if (text.length <= LONGEST_CALL || longest < 100) return text
  }
}

// The messages as JSON, in as few calls as they fit into.
function packed(messages) {
  const calls = []
  let size = LONGEST_CALL
  for (const text of messages.map(shortened)) {
    if (size + text.length > LONGEST_CALL) {
      calls.push([])
      size = 0
    }
    calls[calls.length - 1].push(text)
    size += text.length + 1
  }
  return calls.map((texts) => `[${texts.join()}]`)
}

function withText(message, text) {
  const id = `prt_dreamd_${message.info.id}`
  if (message.parts.some((part) => part.id === id)) return message
  const { id: messageID, sessionID } = message.info
  const part = { id, messageID, sessionID, type: "text", text, synthetic: true }
  return { ...message, parts: [part, ...message.parts] }
}

export const Dreamd = async ({ client, directory }) => {
  // By id: the texts by the prompt that each goes before, one that waits for a compaction to end, and the exchange that
  // is not kept yet.
  const sessions = new Map()
  const nested = new Set() // sessions of sub-agents

  async function answered(id) {
    const known = sessions.get(id)
    if (!known || !known.prompt) return
    const { prompt, turn } = known
    known.prompt = ""
    const given = { session_id: id, cwd: directory, turn_id: turn }
    let messages = []
    try {
      const { data } = await client.session.messages({ path: { id } })
      messages = data.slice(data.findIndex((message) => message.info.id === turn))
    } catch {
      // the prompt alone is kept
    }
    if (!messages.length) await ask("answered", { ...given, prompt })
    for (const call of packed(messages)) await ask("answered", { ...given, messages: call })
  }

  return {
    event: async ({ event }) => {
      const of = event.properties || {}
      if (event.type === "session.created" && of.info?.parentID) nested.add(of.info.id)
      if (event.type === "session.compacted" && sessions.has(of.sessionID)) sessions.get(of.sessionID).compacts = false
      if (event.type === "session.idle" && of.sessionID) await answered(of.sessionID)
      if (event.type === "session.deleted" && of.info) sessions.delete(of.info.id)
    },
    "chat.message": async (input, output) => {
      if (nested.has(input.sessionID)) return
      const given = { session_id: input.sessionID, cwd: directory }
      const texts = []
      let known = sessions.get(input.sessionID)
      if (!known) {
        known = { texts: new Map(), after: "", compacts: false, prompt: "", turn: "" }
        sessions.set(input.sessionID, known)
        texts.push(await ask("start", { ...given, source: "startup" }))
      }
      known.compacts = false
      known.prompt = textOf(output.parts)
      known.turn = output.message?.id || ""
      texts.push(await ask("prompt", { ...given, turn_id: known.turn, prompt: known.prompt }))
      const text = texts.filter(Boolean).join("\n")
      if (text && known.turn) known.texts.set(known.turn, text)
    },
    "tool.execute.after": async (input, output) => {
      if (!TOOLS.has(input.tool) || typeof output.output !== "string") return
      const exit = output.metadata?.exit
      const given = {
        session_id: input.sessionID,
        cwd: directory,
        agent_id: nested.has(input.sessionID) ? input.sessionID : "",
        tool_name: input.tool,
        tool_input: input.args || {},
        tool_response: `${exit ? `Exit code: ${exit}\n` : ""}${output.output.slice(0, LONGEST_OUTPUT)}`,
      }
      // A successful command recalls nothing: no process is started for it.
      if (input.tool === "bash" && !exit) return
      const text = await ask("after", given)
      if (text) output.output += `\n\n${text}`
    },
    "experimental.chat.messages.transform": async (input, output) => {
      const { messages } = output
      const known = sessions.get(messages[0]?.info.sessionID)
      // A compaction's own request is not told: its summary would keep the texts as what was said.
      if (!known || known.compacts) return
      const asked = messages.findLast((message) => message.info.role === "user")
      if (known.after && asked) {
        known.texts.set(asked.info.id, known.after)
        known.after = ""
      }
      messages.forEach((message, at) => {
        const text = known.texts.get(message.info.id)
        // A copy: opencode reads the message itself for the title.
        if (text) messages[at] = withText(message, text)
      })
    },
    "experimental.session.compacting": async (input) => {
      const known = sessions.get(input.sessionID)
      if (!known) return
      known.compacts = true
      known.texts.clear()
      const given = { session_id: input.sessionID, cwd: directory }
      await ask("compacting", given)
      known.after = await ask("start", { ...given, source: "compact" })
    },
  }
}
