package extract

import (
	"bytes"
	"regexp"
)

// readMailbox reads the e-mails of a mailbox (mbox). Each begins with a line "From ", at the beginning or after an
// empty line. Within an e-mail such lines may have a mark before them. Other text is read as plain text.
func readMailbox(in input, b *builder) error {
	rest := bytes.TrimLeft(in.data, "\r\n")
	if !beginsMail.Match(rest) {
		return readPlain(in, b)
	}
	for len(rest) > 0 && !b.full {
		var one []byte
		one, rest = firstMail(rest)
		one = bytes.ReplaceAll(one, []byte("\n>From "), []byte("\nFrom "))
		most := b.most
		most.characters -= b.characters
		cut, err := b.include("E-mail", in.within(one, mail), most)
		if err != nil {
			return err
		}
		b.full = b.full || cut
	}
	return nil
}

// beginsMail matches a line "From " with a time and a year, or before a header.
var beginsMail = regexp.MustCompile(`^From [^\r\n]*(?:\d:\d\d[^\r\n]* \d{4}|\r?\n[!-9;-~]+:)`)

// firstMail divides a mailbox behind its first e-mail.
func firstMail(box []byte) (one, rest []byte) {
	from := []byte("From ")
	for at := len(from); ; at += len(from) {
		next := bytes.Index(box[at:], from)
		if next < 0 {
			return box, nil
		}
		at += next
		before := bytes.TrimRight(box[:at], " \t\r")
		isApart := bytes.HasSuffix(before, []byte("\n\n")) || bytes.HasSuffix(before, []byte("\n\r\n"))
		if isApart && beginsMail.Match(box[at:]) {
			return box[:at], box[at:]
		}
	}
}
