package extract

import (
	"bytes"

	"github.com/xuri/excelize/v2"
)

// encryptedPackage is the name, in UTF-16, of the stream in which Office keeps a document that has a password.
var encryptedPackage = []byte("E\x00n\x00c\x00r\x00y\x00p\x00t\x00e\x00d\x00P\x00a\x00c\x00k\x00a\x00g\x00e\x00")

// defaultPassword is published: Excel encrypts protected workbooks with it, and opens them without a question.
const defaultPassword = "VelvetSweatshop"

// readCompound reads an encrypted document with the default password. It refuses one with another password, and those
// of Office before 2007.
func readCompound(in input, b *builder) error {
	if !bytes.Contains(in.data, encryptedPackage) {
		return ErrKind
	}
	plain, err := excelize.Decrypt(in.data, &excelize.Options{Password: defaultPassword})
	if err != nil || !bytes.HasPrefix(plain, []byte(magic[archive])) {
		return Fault{Encrypted, "the document has a password"}
	}
	in.data, in.format = plain, archive
	return readArchive(in, b)
}
