// Command infra is the CDK application: it synthesises the stacks of one stage.
//
//	cdk synth -c stage=dev
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"agentplatform/infra/stacks"
	"agentplatform/infra/stage"
)

func main() {
	err := run()
	jsii.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, "infra:", err)
		os.Exit(1)
	}
}

func run() error {
	app := awscdk.NewApp(nil)
	given := func(name, otherwise string) string {
		if value, _ := app.Node().TryGetContext(jsii.String(name)).(string); value != "" {
			return value
		}
		return otherwise
	}
	s, err := stage.Named(given("stage", ""), given("alarmEmail", ""))
	if err != nil {
		return err
	}
	if given("whole", "") != "" {
		s = s.Whole()
	}
	// make deploy finds these values, and refuses to go on without them.
	found := stacks.Found{
		Binaries: given("binaries", "dist"), Image: given("image", "none"),
		OriginPrefixList: given("originPrefixList", "pl-00000000"),
		WebACL:           given("webAcl", ""), Commit: given("commit", ""), CommitBefore: given("commitBefore", ""),
	}
	if zones := given("zones", ""); zones != "" {
		found.Zones = strings.Split(zones, ",")
	}
	stacks.New(app, s, found)
	app.Synth(nil)
	return nil
}
