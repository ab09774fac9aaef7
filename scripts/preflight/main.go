// Command preflight says, before anything of a stage is deployed, what will fail in this account and why, one sentence
// each with what to do. It changes nothing. It exits with 1 where a deploy would fail for sure; what may matter later
// is a warning, and so is what these credentials may not ask.
//
//	go run ./scripts/preflight -stage dev
//	go run ./scripts/preflight -stage prod -alarm-email someone@example.com -json
//
// With -json the sentences go to the error output, and what the deploy needs to know of the account to the output.
//
// It knows stages and accounts, nothing of the service, and imports the stages, the names of embedding models and the
// SDK.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"

	"agentplatform/infra/stage"
)

// limit bounds all that is asked, together.
const limit = 3 * time.Minute

func main() {
	name := flag.String("stage", "", "the stage, as in infra/stage")
	mail := flag.String("alarm-email", "", "the address for alarms, where the stage does not say one itself")
	asJSON := flag.Bool("json", false, "print what the deploy needs to know of the account")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, os.Stderr, *name, *mail, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "preflight:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, told io.Writer, name, mail string, asJSON bool) error {
	if name == "" {
		return errors.New("say -stage NAME, as in infra/stage")
	}
	s, err := stage.Named(name, mail)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	loaded, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	if !asJSON {
		told = out
	}
	a, fatal := look(ctx, told, &account{loaded}, s)
	if fatal > 0 {
		return fmt.Errorf("a deploy of %s would fail: see above", name)
	}
	f, known := a.facts()
	if !asJSON {
		_, err := fmt.Fprintf(out, "commit %s, zones %s, prefix list %s\n", f.Commit, strings.Join(f.Zones, ","),
			f.OriginPrefixList)
		return err
	}
	if !known {
		return errors.New("the zones and CloudFront's prefix list are needed to deploy, and could not be asked")
	}
	return json.NewEncoder(out).Encode(f)
}
