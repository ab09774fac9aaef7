package sim

import (
	"context"
	"encoding/json"
	"strings"

	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
)

// file checks that a file's stored holders are those that have it.
func (c *checker) file(id string) {
	f, there := c.files[id]
	holders := len(c.fileHolders[id])
	switch {
	case there && f.References != holders:
		c.violated(20, "file %s counts %d who hold it, and there are %d", id, f.References, holders)
	case holders > 0 && (!there || f.Removed):
		for run := range c.fileHolders[id] {
			if !c.isGone(run) { // an organization's files may be removed before its last runs
				c.violated(20, "file %s is held by run %s and is not there", id, run)
			}
		}
	case there && !f.Removed && f.Uploaded:
		if _, err := c.world.blobs.Get(context.Background(), f.Blob); err != nil {
			c.violated(20, "file %s is there without its bytes: %v", id, err)
		}
	}
}

// dropped checks that bytes are removed only after no item refers to them.
func (c *checker) dropped(below string) {
	id, is := strings.CutPrefix(strings.TrimSuffix(below, "/"), "files/")
	if f, there := c.files[id]; is && there && !f.Removed {
		c.violated(20, "the bytes of file %s are removed, and it can be reached", id)
	}
}

// needs records the files of a message: its run must hold them as long as it exists.
func (c *checker) needs(p intake.Posted, files []record.FileRef) {
	id := p.Run.RunID
	if p.Parked != nil {
		id = p.Parked.ParkedID
	}
	for _, f := range files {
		c.needed[id] = append(c.needed[id], f.FileID)
	}
}

// kept checks that all needed files exist, and at the end, that no others do.
func (c *checker) kept() {
	for _, id := range sortedKeys(c.runs) {
		var made struct {
			Files []record.FileRef `json:"files"`
		}
		_ = json.Unmarshal(c.runs[id].Output, &made)
		for _, f := range made.Files {
			c.needed[id] = append(c.needed[id], f.FileID)
		}
		for _, file := range c.needed[id] {
			if f, there := c.files[file]; !there || f.Removed || !c.fileHolders[file][id] {
				c.violated(20, "run %s needs file %s, which is not there", id, file)
			}
		}
	}
	c.fileCounts()
	for _, id := range sortedKeys(c.files) {
		if c.files[id].References == 0 {
			c.violated(20, "file %s is held by nobody and still there: %+v", id, c.files[id])
		}
	}
	for _, file := range sortedKeys(c.fileHolders) {
		for run := range c.fileHolders[file] {
			if _, there := c.runs[run]; !there {
				c.violated(20, "file %s is held by run %s, which is not there", file, run)
			}
		}
	}
	for _, key := range c.world.blobs.Keys() {
		parts := strings.Split(key, "/")
		if ofDocument(key) {
			if !c.world.library.documents.owns(key) {
				c.violated(20, "%s is no document's", key)
			}
			continue
		}
		_, run := c.runs[parts[min(2, len(parts)-1)]]
		_, file := c.files[parts[1]]
		if parts[0] == "files" && !file || parts[0] == "documents" && !run {
			c.violated(20, "%s is nobody's", key)
		}
	}
}

// fileCounts checks that the counts of users and organizations are those of the files that are there.
func (c *checker) fileCounts() {
	want := map[[2]string]record.FileUse{}
	for filer := range c.filers {
		want[filer] = record.FileUse{}
	}
	for _, f := range c.files {
		for _, of := range []string{f.UserID, ""} {
			use := want[[2]string{f.Organization, of}]
			want[[2]string{f.Organization, of}] = record.FileUse{Count: use.Count + 1, Bytes: use.Bytes + f.Size}
		}
	}
	for of, there := range want {
		counted, err := c.store().FilesOf(context.Background(), of[0], of[1])
		if err != nil || counted != there {
			c.violated(20, "%v files of %v are counted, and there are %v: %v", counted, of, there, err)
		}
	}
}
