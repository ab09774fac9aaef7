package httpapi

import (
	"encoding/base64"
	"strings"

	"agentplatform/internal/problem"
)

// Cursors are opaque to clients: a place in a listing, which stays good whatever is written meanwhile.
const cursorMark = "c1:"

func encodeCursor(place string) *string {
	if place == "" {
		return nil
	}
	s := base64.RawURLEncoding.EncodeToString([]byte(cursorMark + place))
	return &s
}

func decodeCursor(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	place, marked := strings.CutPrefix(string(raw), cursorMark)
	if err != nil || !marked || place == "" || len(place) > 512 || strings.ContainsFunc(place, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", problem.InvalidField("query.cursor", "is not one that a page has given")
	}
	return place, nil
}
