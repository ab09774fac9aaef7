package agent

import (
	"slices"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/store/record"
)

// past is the steps of a run so far, with the values that each further step needs of all of them. A run may have a
// thousand steps, so that a step must not search all of them again.
type past struct {
	steps []record.Step // by their indexes

	ended  map[string]*record.Step // results, by the keys of their calls
	starts map[string]int          // starts of a call that must not be made twice, by its key
	labels map[string]bool         // labels of the calls that the model has seen
	// lastOfModel is the newest step of the model; nil: there is none.
	lastOfModel *record.Step
	answers     int // steps of the model without calls
	calling     int // 1 + the index of the newest step of the model with calls; 0: there is none
	cut         int // calls of the model that were cut short
	tokens      int64
	answer      record.Answer
	found       []string // documents, in order

	talk   []model.Message // the conversation up to a step; see [session.conversation]
	talked int             // how many of the steps are in it
}

// add inserts steps in the order of their indexes, because parallel calls end in any order.
func (p *past) add(steps ...record.Step) {
	if p.ended == nil {
		p.ended, p.starts, p.labels = map[string]*record.Step{}, map[string]int{}, map[string]bool{}
	}
	for _, step := range steps {
		at := len(p.steps)
		for at > 0 && p.steps[at-1].Index > step.Index {
			at--
		}
		p.steps = slices.Insert(p.steps, at, step)
		if at < p.talked {
			p.forgetTalk()
		}
		p.tokens += step.InputTokens + step.OutputTokens
		switch step.Kind {
		case record.ModelStep:
			p.lastOfModel = &step
			p.answer.Add(step)
			if len(step.Calls) == 0 {
				p.answers++
			}
			if len(step.Calls) > 0 {
				p.calling = max(p.calling, step.Index+1)
			}
			for _, c := range step.Calls {
				p.labels[c.Label] = true
			}
		case record.CutStep:
			p.cut++
		case record.ToolStep:
			if p.ended[step.CallID] == nil {
				p.ended[step.CallID] = &step
			}
			for _, source := range step.Found {
				if at, known := slices.BinarySearch(p.found, source.Document); !known {
					p.found = slices.Insert(p.found, at, source.Document)
				}
			}
		case record.StartStep:
			if step.Outcome == notBegun {
				p.starts[step.CallID]--
			} else {
				p.starts[step.CallID]++
			}
		}
	}
}

func (p *past) forgetTalk() { p.talk, p.talked = nil, 0 }

// done is the result of a call, or nil if it has not ended.
func (p *past) done(key string) *record.Step { return p.ended[key] }
