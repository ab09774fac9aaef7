package events

// AskedText is what the function reader is asked for: the text of a file.
type AskedText struct {
	URL         string `json:"url"` // of its bytes, good for some minutes: it is all the right that reader has
	ContentType string `json:"content_type"`
	Name        string `json:"name"`
}

// FileText is the answer: one of text, fault and missing. The text is bounded by extract.MaxText.
type FileText struct {
	Text    string     `json:"text,omitempty"`
	Fault   *FileFault `json:"fault,omitempty"`
	Missing bool       `json:"missing,omitempty"` // there are no bytes
}

// FileFault says why a file cannot be read (extract.Fault).
type FileFault struct {
	Code   string `json:"code"`
	Reason string `json:"reason"`
}
