package intake

import (
	"context"
	"fmt"
	"slices"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/schema"
	"agentplatform/internal/store/record"
)

// checkEdits returns a problem of kind Invalid, with a field for each edit whose arguments the tool does not accept. It
// uses the tool as the run gets it now. It skips a tool that is gone or has changed: the run reports that to its model.
func (in *Intake) checkEdits(ctx context.Context, run record.Run, list []record.Decision) error {
	edits := func(d record.Decision) bool { return d.Decision == string(lifecycle.Edit) }
	if in.Tools == nil || !slices.ContainsFunc(list, edits) {
		return nil
	}
	interrupts, err := in.Store.Interrupts(ctx, run.ID(), run.Pause)
	if err != nil {
		return err
	}
	offers, err := in.offersOf(ctx, run)
	if err != nil {
		return err
	}
	var wrong *problem.Error
	for i, d := range list {
		if !edits(d) {
			continue
		}
		offer, known := offerOf(interrupts, d.InterruptID, offers)
		if !known {
			continue
		}
		if err := schema.Fits(ctx, offer.Parameters, d.Arguments); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			at := fmt.Sprintf("body.decisions[%d].arguments", i)
			one := problem.InvalidField(at, "must fit the tool %s: %s", offer.Name, err)
			if wrong == nil {
				wrong = one
			} else {
				wrong.Fields = append(wrong.Fields, one.Fields...)
			}
		}
	}
	if wrong != nil {
		return wrong
	}
	return nil
}

// offersOf are the tools that a run gets now; none if its agent is gone.
func (in *Intake) offersOf(ctx context.Context, run record.Run) ([]tool.Offer, error) {
	agent, err := record.Version[catalog.Agent](ctx, in.Store, record.Of(run.Organization), run.Agent, run.AgentVersion)
	if problem.Is(err, "not_found") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	offers, err := in.Tools(ctx, run.Organization, agent.Spec.ToolkitIDs)
	if err != nil {
		if _, is := problem.As(err); !is && ctx.Err() == nil {
			err = problem.Retry(err) // of the blob store
		}
		return nil, err
	}
	if agent.Spec.Offers(model.Search) {
		offers = append(offers,
			tool.Offer{Spec: tool.Spec{Name: model.Search, Parameters: model.SearchTool.Parameters}})
	}
	return offers, nil
}

// offerOf is the tool of an interrupt, if the tool is still the one that the model requested.
func offerOf(interrupts []record.Interrupt, id string, offers []tool.Offer) (o tool.Offer, known bool) {
	at := slices.IndexFunc(interrupts, func(i record.Interrupt) bool { return i.ID == id && i.Tool != nil })
	if at < 0 {
		return o, false
	}
	i := interrupts[at]
	for _, o := range offers {
		if o.Name == i.Tool.Name {
			return o, o.Is(i.Source, i.Fingerprint)
		}
	}
	return o, false
}
