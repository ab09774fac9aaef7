// Package logline makes the logger: JSON lines of bounded length. An error's text may contain data of a client or a
// server, and must not fill the disk.
//
// It must not know the logged values. It imports only the standard library.
package logline

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// maxValue is how many bytes of a value are logged. Most stacks fit.
const maxValue = 16 << 10

// New makes a logger that writes JSON lines to w. Longer values are cut, with their length appended.
func New(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w,
		&slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Value.Kind() {
			case slog.KindString:
				a.Value = slog.StringValue(bounded(a.Value.String()))
			case slog.KindAny:
				switch v := a.Value.Any().(type) {
				case error:
					a.Value = slog.StringValue(bounded(v.Error()))
				case slog.Level, *slog.Source:
				default:
					a.Value = slog.StringValue(bounded(fmt.Sprint(v)))
				}
			}
			return a
		}}))
}

func bounded(s string) string {
	if len(s) <= maxValue {
		return s
	}
	return strings.ToValidUTF8(s[:maxValue], "\uFFFD") + fmt.Sprintf("… (%d bytes)", len(s))
}
