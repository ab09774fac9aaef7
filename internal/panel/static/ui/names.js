// Names of what ids stand for, as far as the key may read them.
import { useLive } from '../live.js'
import { may } from '../session.js'

/** @param {string|null} path @param {string} plural @param {string} id @param {(row: any) => string} text */
function useNames(path, plural, id, text) {
  const { data } = useLive(path, { limit: 100 })
  /** @type {any[]} */
  const all = data?.[plural] ?? []
  return {
    all,
    options: all.map((r) => /** @type {[string, string]} */ ([r[id], text(r)])),
    of: (/** @type {string} */ which) => {
      const found = all.find((r) => r[id] === which)
      return found ? text(found) : ''
    },
  }
}

export const useAgents = () => useNames('/agents', 'agents', 'agent_id', (a) => a.name)
export const useUsers = () => useNames(may('admin') ? '/users' : null, 'users', 'user_id', (u) => u.name || u.email)
export const useGroups = () => useNames(may('admin') ? '/groups' : null, 'groups', 'group_id', (g) => g.name)
export const useKeys = () => useNames(may('admin') ? '/api-keys' : null, 'api_keys', 'api_key_id', (k) => k.name)
export const useToolkits = () => useNames('/toolkits', 'toolkits', 'toolkit_id', (t) => t.name)
export const useBases = () => useNames('/knowledge-bases', 'knowledge_bases', 'knowledge_base_id', (b) => b.name)
