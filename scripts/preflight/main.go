// Command preflight prints the problems that a deploy of a stage would have in this account, before anything is
// deployed. Each is one sentence with its reason and an action. It changes nothing. It exits with 1 if a deploy would
// fail for sure. Problems that may matter later are warnings. So are checks that these credentials may not make.
//
//	go run ./scripts/preflight -stage dev
//	go run ./scripts/preflight -stage prod -alarm-email someone@example.com -json
//
// With -json the sentences go to the error output, and the values of the account that a deploy needs to the output.
//
// It knows stages and accounts, nothing of the service. It imports the stages, the names of embedding models and the
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

// limit is the time limit for all requests together.
const limit = 3 * time.Minute

func main() {
	name := flag.String("stage", "", "the stage, as in infra/stage")
	mail := flag.String("alarm-email", "", "the address for alarms, if the stage has none")
	asJSON := flag.Bool("json", false, "print the account data that the deploy needs")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, os.Stderr, *name, *mail, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "preflight:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, report io.Writer, name, mail string, asJSON bool) error {
	if name == "" {
		return errors.New("-stage NAME is required, as in infra/stage")
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
		report = out
	}
	a, fatal := runChecks(ctx, report, &account{loaded}, s)
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
		return errors.New("the deploy needs the zones and CloudFront's prefix list, but they could not be read")
	}
	return json.NewEncoder(out).Encode(f)
}
