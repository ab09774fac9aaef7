package extract

import "bytes"

// encryptedPackage is the name, in UTF-16, of the stream in which Office keeps a document that has a password.
var encryptedPackage = []byte("E\x00n\x00c\x00r\x00y\x00p\x00t\x00e\x00d\x00P\x00a\x00c\x00k\x00a\x00g\x00e\x00")

// readCompound says why a compound file is not read: it holds an encrypted document, or one of Office before 2007.
func readCompound(in input, _ *builder) error {
	if bytes.Contains(in.data, encryptedPackage) {
		return Fault{Encrypted, "the document has a password"}
	}
	return ErrKind
}
