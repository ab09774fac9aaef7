// Command image makes the container images of a release for linux/amd64 and linux/arm64, without Docker. It reads what
// make release has built. It writes a file for docker load for each, or pushes both under one tag.
//
//	go run ./scripts/image -version v1.2.3 -dist dist
//	go run ./scripts/image -version v1.2.3 -dist dist -push REGISTRY/NAME
//
// A push uses the credentials of docker login.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"agentplatform/scripts/container"
)

func main() {
	version := flag.String("version", "dev", "of the programs")
	dist := flag.String("dist", "dist", "the folder with agentplatform-VERSION-linux-* and the licenses")
	push := flag.String("push", "", "the repository to push to; without it, files are written to dist")
	flag.Parse()
	if err := run(context.Background(), *version, *dist, *push); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// processors are those that there are images for.
var processors = []string{"amd64", "arm64"}

// licenses are files of the folder that the images contain, too.
var licenses = []string{"LICENSE", "NOTICE", "THIRD_PARTY_NOTICES.txt"}

func run(ctx context.Context, version, dist, push string) error {
	images := map[string]v1.Image{}
	for _, processor := range processors {
		image, err := load(version, dist, processor)
		if err != nil {
			return err
		}
		images[processor] = image
	}
	if push != "" {
		return pushAll(ctx, images, push+":"+version)
	}
	tag, err := name.NewTag("agentplatform:" + version)
	if err != nil {
		return err
	}
	for _, processor := range processors {
		file := filepath.Join(dist, "agentplatform-"+version+"-image-"+processor+".tar")
		if err := tarball.WriteToFile(file, tag, images[processor]); err != nil {
			return err
		}
		fmt.Println(file)
	}
	return nil
}

// load makes the image for one processor from the files of the folder.
func load(version, dist, processor string) (v1.Image, error) {
	program, err := os.ReadFile(filepath.Join(dist, "agentplatform-"+version+"-linux-"+processor))
	if err != nil {
		return nil, err
	}
	texts := map[string][]byte{}
	for _, name := range licenses {
		if texts[name], err = os.ReadFile(filepath.Join(dist, name)); err != nil {
			return nil, err
		}
	}
	return imageOf(version, processor, program, texts)
}

// imageOf makes an image with the program, the licenses, and a folder for the data that the program owns.
func imageOf(version, processor string, program []byte, texts map[string][]byte) (v1.Image, error) {
	files := []container.File{
		container.Temporary(),
		// Docker gives a new volume the owner and the mode of the folder that it is mounted at.
		{Name: "data/", Mode: 0o700, Owner: container.Nobody},
		container.Program("agentplatform", program),
		{Name: "licenses/", Mode: 0o755},
	}
	for _, name := range licenses {
		files = append(files, container.File{Name: "licenses/" + name, Mode: 0o444, Content: texts[name]})
	}
	return container.Image(processor, files, v1.Config{
		Entrypoint:   []string{"/agentplatform"},
		Env:          []string{"ADDR=0.0.0.0:8080", "DATA_DIR=/data"},
		User:         fmt.Sprintf("%d:%[1]d", container.Nobody),
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Volumes:      map[string]struct{}{"/data": {}},
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "/agentplatform", "-health"}, Interval: 30 * time.Second, Timeout: 10 * time.Second,
			StartPeriod: 10 * time.Second, Retries: 3,
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "Agent Platform",
			"org.opencontainers.image.version":  version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	})
}

// pushAll pushes the images under one tag: a registry gives each machine the one for its processor.
func pushAll(ctx context.Context, images map[string]v1.Image, to string) error {
	tag, err := name.NewTag(to)
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.DockerManifestList)
	for _, processor := range processors {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        images[processor],
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: processor}},
		})
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Println(tag.Name() + "@" + digest.String())
	return remote.WriteIndex(tag, index, remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithContext(ctx))
}
