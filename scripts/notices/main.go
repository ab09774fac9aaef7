// Command notices writes the licenses of all modules that the released programs contain into one file, which a release
// ships. It fails if a module has no license.
//
//	go run ./scripts/notices -out dist/THIRD_PARTY_NOTICES.txt
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The modules that contain these libraries do not contain their licenses.
var (
	//go:embed texts/pdfium.txt
	pdfium string
	//go:embed texts/swagger-ui.txt
	swaggerUI string
)

func main() {
	out := flag.String("out", "dist/THIRD_PARTY_NOTICES.txt", "the file to write")
	platforms := flag.String("platforms", "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64", "of the programs")
	flag.Parse()
	text, err := collect(context.Background(), ".", strings.Fields(*platforms))
	if err == nil {
		err = os.WriteFile(*out, []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// notice is one text, with the names of the libraries that it applies to.
type notice struct {
	names []string
	text  string
}

// collect returns the notices of the programs in the module at root.
func collect(ctx context.Context, root string, platforms []string) (string, error) {
	found := map[string]map[string]bool{} // folders with notices, by the name of the library
	for _, platform := range platforms {
		if err := linked(ctx, root, platform, found); err != nil {
			return "", err
		}
	}
	panel, err := os.ReadFile(filepath.Join(root, "internal/api/panel/static/vendor/LICENSES.txt"))
	if err != nil {
		return "", err
	}
	notices := []notice{
		{[]string{"the libraries of the admin panel"}, string(panel)},
		{[]string{"PDFium, in github.com/klippa-app/go-pdfium"}, pdfium},
		{[]string{"Swagger UI, in github.com/swaggest/swgui"}, swaggerUI},
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		texts, err := read(slices.Sorted(maps.Keys(found[name])))
		if err != nil {
			return "", err
		}
		if len(texts) == 0 {
			return "", fmt.Errorf("%s has no license", name)
		}
		for _, text := range texts {
			same := slices.IndexFunc(notices, func(n notice) bool { return n.text == text })
			if same < 0 {
				notices = append(notices, notice{[]string{name}, text})
				continue
			}
			notices[same].names = append(notices[same].names, name)
		}
	}
	return page(notices), nil
}

func page(notices []notice) string {
	var b strings.Builder
	b.WriteString("Agent Platform contains the software of others that is listed here, with its licenses.\n")
	for _, n := range notices {
		fmt.Fprintf(&b, "\n%s\n", strings.Repeat("=", 80))
		for _, name := range n.names {
			b.WriteString(name + "\n")
		}
		fmt.Fprintf(&b, "%s\n\n%s\n", strings.Repeat("-", 80), strings.TrimSpace(n.text))
	}
	return b.String()
}

// linked adds what the programs for a platform contain.
func linked(ctx context.Context, root, platform string, found map[string]map[string]bool) error {
	system, processor, _ := strings.Cut(platform, "/")
	command := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Dir,Standard,Module", "-tags", "lambda.norpc",
		"./functions/...")
	command.Dir = root
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return fmt.Errorf("go list for %s: %w", platform, err)
	}
	type library struct {
		Dir      string
		Standard bool
		Module   *struct {
			Path, Version, Dir string
			Main               bool
		}
	}
	for packages := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p library
		err := packages.Decode(&p)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case p.Standard:
			if err := golang(ctx, found); err != nil {
				return err
			}
		case p.Module == nil || p.Module.Main:
		default:
			name := p.Module.Path + " " + p.Module.Version
			if found[name] == nil {
				found[name] = map[string]bool{}
			}
			// A part of a module may have a license of its own.
			for dir := p.Dir; ; dir = filepath.Dir(dir) {
				found[name][dir] = true
				if dir == p.Module.Dir || len(dir) < len(p.Module.Dir) {
					break
				}
			}
		}
	}
}

// golang adds Go itself, with its standard library.
func golang(ctx context.Context, found map[string]map[string]bool) error {
	const name = "Go"
	if found[name] != nil {
		return nil
	}
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	found[name] = map[string]bool{strings.TrimSpace(string(out)): true}
	return nil
}

var named = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|notice|patents)([.-].*)?$`)

// read returns the notices in these folders, each text once.
func read(folders []string) ([]string, error) {
	var texts []string
	for _, folder := range folders {
		files, err := os.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if !named.MatchString(file.Name()) || !file.Type().IsRegular() || strings.HasSuffix(file.Name(), ".go") {
				continue
			}
			raw, err := fs.ReadFile(os.DirFS(folder), file.Name())
			if err != nil {
				return nil, err
			}
			if text := strings.TrimSpace(string(raw)); !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts, nil
}
