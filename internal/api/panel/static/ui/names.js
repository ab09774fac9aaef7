// Names of objects by their ids, as far as the key may read them: of the newest 1,000.
import { seldom, usePages } from '../live.js'
import { may } from '../session.js'

/**
 * @typedef {object} Names
 * @property {any[]} all
 * @property {Array<[string, string]>} options value and text, for a field
 * @property {(id: string) => string} of the name of one; empty: it is not known
 * @property {boolean} known whether all are: one that is not among them has gone
 * @property {any} error
 */

/** @param {string|null} path @param {string} plural @param {string} id @param {(row: any) => string} text @returns {Names} */
function useNames(path, plural, id, text) {
  const live = usePages(path, plural, id, {}, seldom, 1000)
  const { rows, more } = live.data.value ?? { rows: [], more: true }
  return {
    all: rows, known: !more, error: live.error.value,
    options: rows.map((/** @type {any} */ r) => [r[id], text(r)]),
    of: (which) => {
      const found = rows.find((/** @type {any} */ r) => r[id] === which)
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
