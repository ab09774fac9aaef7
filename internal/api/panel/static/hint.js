// The title of a time next to it, for users who reach the time by keyboard. It is one bubble over everything: no table
// or dialog cuts it off.
const bubble = document.createElement('div')
bubble.className = 'hint'
bubble.popover = 'manual'
bubble.ariaHidden = 'true' // the title is read out as it is

/** @type {HTMLElement|null} */
let of = null

function place() {
  if (!of) return
  const at = of.getBoundingClientRect()
  const { width, height } = bubble.getBoundingClientRect()
  const below = at.bottom + 4
  bubble.style.left = `${Math.max(4, Math.min(at.left, innerWidth - width - 4))}px`
  bubble.style.top = `${below + height < innerHeight ? below : at.top - height - 4}px`
}

function hide() {
  of = null
  bubble.remove()
}

addEventListener('focusin', (e) => {
  hide()
  if (!(e.target instanceof HTMLTimeElement) || !e.target.title) return
  of = e.target
  bubble.textContent = of.title
  ;(of.closest('dialog') ?? document.body).append(bubble) // what is outside of a dialog is not for eyes while it is open
  bubble.showPopover()
  place()
})
addEventListener('focusout', hide)
addEventListener('keydown', (e) => e.key === 'Escape' && hide())
addEventListener('scroll', place, { capture: true, passive: true })
addEventListener('resize', place)
