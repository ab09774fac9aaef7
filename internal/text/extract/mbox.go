package extract

import "bytes"

// readMailbox reads the e-mails of a mailbox (mbox). Each begins with a line "From ", at the beginning or after an
// empty line. Within an e-mail such lines have a mark before them.
func readMailbox(in input, b *builder) error {
	rest := bytes.TrimLeft(in.data, "\r\n")
	if !bytes.HasPrefix(rest, fromLine) {
		return Fault{Unreadable, "it is no mailbox"}
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

var fromLine = []byte("From ")

// firstMail divides a mailbox behind its first e-mail.
func firstMail(box []byte) (one, rest []byte) {
	for at := len(fromLine); ; {
		next := bytes.Index(box[at:], fromLine)
		if next < 0 {
			return box, nil
		}
		at += next
		before := bytes.TrimRight(box[:at], " \t\r")
		if bytes.HasSuffix(before, []byte("\n\n")) || bytes.HasSuffix(before, []byte("\n\r\n")) {
			return box[:at], box[at:]
		}
		at += len(fromLine)
	}
}
