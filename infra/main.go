// Command infra is the CDK application: it synthesises the stacks of one stage.
//
//	cdk synth -c stage=dev
package main

import (
	"fmt"
	"os"

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
	name, _ := app.Node().TryGetContext(jsii.String("stage")).(string)
	s, err := stage.Named(name)
	if err != nil {
		return err
	}
	image, _ := app.Node().TryGetContext(jsii.String("image")).(string)
	if image == "" {
		image = "none" // make deploy sets it once the image is pushed
	}
	stacks.New(app, s, "dist", image)
	app.Synth(nil)
	return nil
}
