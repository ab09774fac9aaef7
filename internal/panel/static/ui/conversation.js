// A chat as somebody has it open: what was said, the run that is under way, and what is sent next. It outlives the page's
// parts that show it, so that a new chat keeps its stream when it gets its address.
import { signal } from '../vendor/signals.js'
import { Failure, get, onceKey, post, request } from '../api.js'
import { after, ended, events, follow } from '../stream.js'

/** @template T @typedef {import('../vendor/signals.js').Signal<T>} Signal */

/** @type {Map<string, Conversation>} */
const open = new Map()

/** The conversation of a chat; of a new one for an empty id. @param {string} chatId */
export function conversation(chatId) {
  let c = open.get(chatId)
  if (!c) open.set(chatId, (c = new Conversation(chatId)))
  return c
}

export class Conversation {
  /** @param {string} chatId */
  constructor(chatId) {
    this.chatId = chatId
    /** What was said, settled. @type {Signal<any[]|null>} */
    this.messages = signal(chatId ? null : [])
    /** The run under way. @type {Signal<import('../stream.js').Watched|null>} */
    this.now = signal(null)
    /** What was sent and is not among the messages yet. @type {Signal<{text: string, files: string[]}|null>} */
    this.sent = signal(null)
    /** The run that ended last, where it did not end well. @type {Signal<any>} */
    this.failed = signal(null)
    /** @type {Signal<any>} */
    this.error = signal(null)
    this.agentId = signal('')
    this.lookers = 0
    this.following = ''
    this.ending = new AbortController()
    /** @type {(id: string) => void} */
    this.named = () => {}
  }

  /** Begins to watch. */
  enter() {
    this.lookers++
    const again = this.ending.signal.aborted // the page's parts were made anew
    if (again) {
      this.ending = new AbortController()
      this.following = ''
      open.set(this.chatId, this)
    }
    if (this.chatId && (again || this.messages.value === null)) this.load()
  }

  leave() {
    if (--this.lookers > 0) return
    this.ending.abort()
    if (open.get(this.chatId) === this) open.delete(this.chatId)
  }

  get busy() {
    const n = this.now.value
    return n !== null && !ended(n.status)
  }

  /** Reads what was said, and follows what is under way. */
  async load() {
    try {
      await Promise.all([this.read(), this.attach()])
      this.error.value = null
    } catch (e) {
      if (!this.ending.signal.aborted) this.error.value = e
    }
  }

  async read() {
    /** @type {any[]} */
    const all = []
    for (let cursor = ''; all.length < 2000;) {
      const page = await get(`/chats/${encodeURIComponent(this.chatId)}/messages`, { limit: 100, cursor }, { signal: this.ending.signal })
      all.push(...page.messages)
      if (!(cursor = page.next_cursor)) break
    }
    this.messages.value = all
  }

  async attach() {
    const { runs } = await get(`/chats/${encodeURIComponent(this.chatId)}/runs`, { limit: 5 }, { signal: this.ending.signal })
    if (runs.length > 0) this.agentId.value = runs[0].agent_id
    const active = runs.find((/** @type {any} */ r) => !ended(r.status))
    if (active) this.watch(active.run_id)
  }

  /** Follows a run to its end, then what comes after it. @param {string} runId */
  async watch(runId) {
    if (this.following === runId) return
    this.following = runId
    try {
      await follow(runId, (e) => this.told(e), this.ending.signal)
    } catch (e) {
      this.error.value = e
    }
    if (this.following === runId) await this.settle()
  }

  /** @param {any} e */
  told(e) {
    if (e.event === 'lost') {
      if (this.now.value) this.now.value = { ...this.now.value, connected: false }
      return
    }
    this.now.value = after(this.now.value, e)
    if (e.event === 'init' && !this.chatId) {
      this.chatId = e.run.chat_id
      open.delete('')
      open.set(this.chatId, this)
      this.named(this.chatId)
    }
    if (e.event === 'init') this.agentId.value = e.run.agent_id
  }

  /** When a run has ended: reads what it said, and looks for the next. */
  async settle() {
    this.following = ''
    if (this.ending.signal.aborted) return
    const last = this.now.value
    await this.load()
    if (!this.following) {
      this.now.value = null
      this.sent.value = null
    }
    const run = last?.run
    this.failed.value = run && ['failed', 'timed_out', 'cancelled'].includes(run.status) ? run : null
  }

  /**
   * Sends a message; it throws where the message was not taken, and nothing has changed then.
   * @param {{text: string, files: File[], agentId: string, version: string, behind: boolean}} m
   */
  async send(m) {
    const form = new FormData()
    form.set('agent_id', m.agentId)
    if (m.text) form.set('message', m.text)
    if (this.chatId) form.set('chat_id', this.chatId)
    if (m.version) form.set('agent_version', m.version)
    form.set('idempotency_key', onceKey())
    const busy = this.busy
    if (busy) form.set('wait', 'false')
    else form.set('streaming', 'true')
    if (m.behind) form.set('on_conflict', 'enqueue')
    for (const f of m.files) form.append('file', f, f.name)
    const answer = await this.posted(form)
    this.failed.value = null
    if (busy) return
    this.sent.value = { text: m.text, files: m.files.map((f) => f.name) }
    this.stream(answer)
  }

  /** Sends a form; where nobody answers, again: the key makes that one message. @param {FormData} form */
  async posted(form) {
    for (let tries = 1; ; tries++) {
      try {
        return await request('POST', '/chat', { body: form })
      } catch (e) {
        if (e instanceof Failure && e.code === 'chat_busy') this.watch(e.body.active_run_id)
        if (!(e instanceof Failure) || e.status !== 0 || tries === 3) throw e
        await new Promise((resolve) => setTimeout(resolve, 400 * tries))
      }
    }
  }

  /** Reads the answer to a message as it comes; the rest of it, when the connection ends before the run, from elsewhere. @param {Response} answer */
  async stream(answer) {
    const runId = answer.headers.get('x-agent-run-id') ?? ''
    this.following = runId
    try {
      if (answer.headers.get('content-type')?.includes('ndjson')) {
        for await (const e of events(answer)) {
          if (this.ending.signal.aborted) return
          this.told(e)
          if (e.event === 'done') return await this.settle()
        }
      }
    } catch {
      this.told({ event: 'lost' })
    }
    if (this.ending.signal.aborted) return
    this.following = ''
    await this.watch(runId)
  }

  async stop() {
    const n = this.now.value
    if (n) await post(`/runs/${n.run.run_id}/cancel`, {})
  }
}
