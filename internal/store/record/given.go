package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"

	"agentplatform/internal/platform/strictjson"
)

// Given is what a client has given a run: with its message, then with the decisions of pauses that it has changed it
// with. A choice of tools is for the part of the run until the next pause.
func Given(in Input, pauses []Pause) (c Context, err error) {
	if in.Context != nil {
		c = *in.Context
	}
	before := c.Before
	for _, pause := range pauses {
		c.ToolChoice, c.Tool = "", ""
		switch d := pause.Decided; {
		case err != nil || d == nil:
		case d.Context != nil:
			c = *d.Context
		case d.Changes != nil:
			c, err = c.changed(d.Changes)
		}
	}
	c.Before = before
	return c, err
}

// Changed is what a client gives a run in place of what it had: all but the conversation, and the members that differ.
type Changed struct {
	To      Context
	Members json.RawMessage // those that differ, whole; null: removed
}

// ChangeTo is the change to another context; nil: there is none. Values are compared as JSON: clients write one schema
// with other white space each time.
func (c Context) ChangeTo(other Context) (*Changed, error) {
	had, err := c.members()
	now, wrong := other.members()
	if err = errors.Join(err, wrong); err != nil {
		return nil, err
	}
	for name, value := range had {
		switch {
		case now[name] == nil:
			now[name] = none
		case strictjson.Same(value, now[name]):
			delete(now, name)
		}
	}
	if len(now) == 0 {
		return nil, nil
	}
	members, err := json.Marshal(now)
	return &Changed{other, members}, err
}

// changed is the context with the members of a change.
func (c Context) changed(changes json.RawMessage) (now Context, err error) {
	members, err := c.members()
	if err == nil {
		err = json.Unmarshal(changes, &members)
	}
	if err != nil {
		return c, err
	}
	maps.DeleteFunc(members, func(_ string, value json.RawMessage) bool { return bytes.Equal(value, none) })
	raw, err := json.Marshal(members)
	if err == nil {
		err = json.Unmarshal(raw, &now)
	}
	return now, err
}

var none = json.RawMessage("null")

// members are the JSON members of a context without the conversation, which no decision changes.
func (c Context) members() (members map[string]json.RawMessage, err error) {
	c.Before = nil
	raw, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(raw, &members)
	}
	return members, err
}
