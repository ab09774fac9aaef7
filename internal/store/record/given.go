package record

// Given is the current [Context] of a run, which the client sent with its message or with the last decision that
// changed it. A choice of tools is for the part of the run until the next pause.
func Given(in Input, pauses []Pause) (c Context) {
	if in.Context != nil {
		c = *in.Context
	}
	before := c.Before
	for _, pause := range pauses {
		c.ToolChoice, c.Tool = "", ""
		if pause.Decided != nil && pause.Decided.Context != nil {
			c = *pause.Decided.Context
		}
	}
	c.Before = before
	return c
}
