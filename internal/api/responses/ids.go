package responses

import (
	"strconv"
	"strings"

	"agentplatform/internal/platform/host"
)

// An id names its object, so nothing is stored for it:
//
//	resp_RUN, resp_RUN_2        a run until its first pause, and after its second
//	msg_RUN, msg_RUN_2          the message of that response
//	call_RUN_INTERRUPT          a call of a client's function, or a question
//	fc_…, fco_…                 the items of that call and of its output
//	mcpr_RUN_INTERRUPT, mcpa_…  a request for an approval, and its decision

// ref names a response: the part of a run after so many pauses.
type ref struct {
	run  string
	part int
}

func (r ref) suffix() string {
	if r.part == 0 {
		return r.run
	}
	return r.run + "_" + strconv.Itoa(r.part)
}

func (r ref) String() string { return "resp_" + r.suffix() }

func parseRef(id string) (r ref, ok bool) {
	rest, ok := strings.CutPrefix(id, "resp_")
	if !ok {
		return r, false
	}
	run, part, more := strings.Cut(rest, "_")
	if r.run = run; !host.ValidID(run) {
		return r, false
	}
	if !more {
		return r, true
	}
	n, err := strconv.Atoi(part)
	r.part = n
	return r, err == nil && n > 0 && strconv.Itoa(n) == part
}

func nameOf(prefix, run, interrupt string) string { return prefix + run + "_" + interrupt }

// parseName reads a name that nameOf has made; ok is false for other ids.
func parseName(prefix, id string) (run, interrupt string, ok bool) {
	rest, ok := strings.CutPrefix(id, prefix)
	run, interrupt, _ = strings.Cut(rest, "_")
	if !ok || !host.ValidID(run) || !host.ValidID(interrupt) {
		return "", "", false
	}
	return run, interrupt, true
}
