package record

import (
	"bytes"
	"encoding/json"
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

// ChangesTo are the members in which a context differs from another one, but the conversation; nil: none. Values are
// compared as JSON: clients write one schema with other white space each time.
func (c Context) ChangesTo(other Context) (changes json.RawMessage, err error) {
	had, err := c.members()
	if err != nil {
		return nil, err
	}
	now, err := other.members()
	if err != nil {
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
	return json.Marshal(now)
}

// changed is the context with changes, a merge patch (RFC 7396) of its members.
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
