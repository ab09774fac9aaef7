// Command imagepush makes the image for containers from the programs, without Docker, and pushes it to a repository.
// The same programs give the same image, byte for byte. It prints the digest.
//
//	go run ./scripts/imagepush -binaries dist -repository URI
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"agentplatform/scripts/container"
)

func main() {
	binaries := flag.String("binaries", "dist", "the folder with NAME/bootstrap, static, for linux/arm64")
	repository := flag.String("repository", "", "where to push: the output ImageRepository of the data stack")
	flag.Parse()
	digest, err := run(context.Background(), *binaries, *repository)
	if err != nil {
		fmt.Fprintln(os.Stderr, "imagepush:", err)
		os.Exit(1)
	}
	fmt.Println(digest)
}

// programs has the programs of the image, each at /NAME. A container runs the first, unless its task names another one.
var programs = []string{"stream", "worker"}

func run(ctx context.Context, binaries, repository string) (string, error) {
	if repository == "" {
		return "", fmt.Errorf("-repository is required")
	}
	var files []container.File
	for _, name := range programs {
		program, err := os.ReadFile(filepath.Join(binaries, name, "bootstrap"))
		if err != nil {
			return "", err
		}
		files = append(files, container.Program(name, program))
	}
	made, err := imageOf(files)
	if err != nil {
		return "", err
	}
	digest, err := made.Digest()
	if err != nil {
		return "", err
	}
	// A tag prevents the cleanup of the image; deployments refer to the digest.
	to, err := name.NewTag(repository + ":" + digest.Hex[:16])
	if err != nil {
		return "", err
	}
	login, err := login(ctx)
	if err != nil {
		return "", err
	}
	return digest.String(), remote.Write(to, made, remote.WithAuth(login), remote.WithContext(ctx))
}

// imageOf makes an image that contains only the programs, which contain their certificates, and a folder for temporary
// files.
func imageOf(programs []container.File) (v1.Image, error) {
	return container.Image("arm64", append([]container.File{container.Temporary()}, programs...), v1.Config{
		Entrypoint: []string{"/" + programs[0].Name}, User: fmt.Sprintf("%d:%[1]d", container.Nobody),
	})
}

func login(ctx context.Context) (authn.Authenticator, error) {
	account, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	out, err := ecr.NewFromConfig(account).GetAuthorizationToken(ctx, &ecr.GetAuthorizationTokenInput{})
	if err != nil {
		return nil, err
	}
	return authn.FromConfig(authn.AuthConfig{Auth: aws.ToString(out.AuthorizationData[0].AuthorizationToken)}), nil
}
