package aguiserver

import (
	"fmt"
	"strings"

	"agentplatform/internal/platform/host"
)

// An id names its object, so nothing is stored for it. A part of a run lasts from one pause to the next. Parts are
// counted from 0.
//
//	msg_RUN_PART_N       the nth message of the agent in a part of a run
//	res_RUN_PART_STEP    the result of a call
//	tool_RUN_STEP        a call of one of the agent's own tools, by its step in the journal
//	call_RUN_INTERRUPT   a call that the run pauses for: of a function of the client, or one to be approved
//	int_RUN_INTERRUPT    an interrupt: an approval or a question

func ofPart(prefix, run string, part int) string { return fmt.Sprintf("%s%s_%d_", prefix, run, part) }

func nameOf(prefix, run, of string) string { return prefix + run + "_" + of }

// runOf is the run that an id names after its prefix.
func runOf(prefix, id string) (run string, is bool) {
	rest, is := strings.CutPrefix(id, prefix)
	run, _, more := strings.Cut(rest, "_")
	return run, is && more && host.ValidID(run)
}

// isOurs reports whether an id is one of a message that a run of ours has sent or received.
func isOurs(id string) bool {
	_, sent := runOf("msg_", id)
	_, got := runOf("res_", id)
	return sent || got
}
