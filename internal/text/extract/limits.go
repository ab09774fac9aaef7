package extract

import "time"

// Limits of what is read.
const (
	MaxText       = 200_000    // bytes of text that Text returns
	MaxFile       = 50 << 20   // bytes of a file that Document reads
	MaxCharacters = 20_000_000 // of text that Document returns
	LargeText     = 5 << 20    // bytes of a text; for a longer one, Document asks its caller for room
	MaxPages      = 2_000      // of a document
	maxBlocks     = 500_000    // of a document
	maxDepth      = 500        // of elements within elements
	maxMembers    = 20_000     // files in an archive
	maxCells      = 16_384     // in a row: as many as a workbook may have
	cutNote       = "\n[cut: the text is longer]"
	atOnce        = 2 // files that this process reads concurrently for messages, and as many documents
	atOnceGroup   = 1 // of one group
	maxWait       = time.Minute
	maxPath       = 200 // characters of the path of a value
	maxNotes      = 200 // bytes of the message of a Fault
	maxAttributes = 100 // of an element of a page that are looked at
)

type limits struct {
	file       int64 // bytes
	characters int
	unpacked   int64         // bytes that an archive's members have in all
	memory     uint64        // bytes, in addition to what the child maps at its start
	sandbox    uint64        // bytes of PDFium, in addition to memory
	work       time.Duration // of CPU time
	elapsed    time.Duration // which includes waiting for a busy CPU
}

// forMessages are the limits of files whose text a model reads. forDocuments are those of documents that are searched,
// whose text is not awaited.
var (
	forMessages = limits{
		file: 20 << 20, characters: MaxText, unpacked: 64 << 20,
		memory: 256 << 20, sandbox: 128 << 20, work: 10 * time.Second, elapsed: time.Minute,
	}
	forDocuments = limits{
		file: MaxFile, characters: MaxCharacters, unpacked: 256 << 20,
		memory: 512 << 20, sandbox: 192 << 20, work: 30 * time.Second, elapsed: 5 * time.Minute,
	}
)
