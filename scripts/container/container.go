// Package container makes container images, without Docker. The same files give the same image, byte for byte.
package container

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Nobody is the user and the group that programs run as. It has no rights in the image or on the machine.
const Nobody = 65532

// File is a file or a folder of an image.
type File struct {
	Name    string // from the root, without the first slash; a folder ends in a slash
	Mode    int64
	Owner   int // the user and the group
	Content []byte
}

// Program is a file that may be run.
func Program(name string, content []byte) File {
	return File{Name: name, Mode: 0o555, Content: content}
}

// Temporary is the folder for temporary files.
func Temporary() File { return File{Name: "tmp/", Mode: 0o1777} }

// Image makes an image for Linux with one layer. The image contains the files and nothing else.
func Image(architecture string, files []File, run v1.Config) (v1.Image, error) {
	layer, err := layerOf(files)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", architecture, run
	return mutate.ConfigFile(image, file)
}

func layerOf(files []File) (v1.Layer, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, f := range files {
		h := tar.Header{
			Name: f.Name, Mode: f.Mode, Uid: f.Owner, Gid: f.Owner, Size: int64(len(f.Content)), Format: tar.FormatPAX,
		}
		if strings.HasSuffix(f.Name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	})
}
