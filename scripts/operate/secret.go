package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"agentplatform/internal/platform/setting"
)

// maxSecret is the maximum length of a secret's value, in bytes.
const maxSecret = 4096

// secret sets one of the deployment's secrets to the content of in, and leaves the others unchanged. Functions read
// them when they start.
func (o *operator) secret(ctx context.Context, name string, in io.Reader) error {
	kinds := setting.Names()
	if kinds[name] != setting.Secret {
		var known []string
		for n, kind := range kinds {
			if kind == setting.Secret {
				known = append(known, n)
			}
		}
		slices.Sort(known)
		return fmt.Errorf("unknown secret %q: use one of %s", name, strings.Join(known, ", "))
	}
	read, err := io.ReadAll(io.LimitReader(in, maxSecret+1))
	if err != nil {
		return err
	}
	value := strings.TrimSpace(string(read))
	if value == "" || len(value) > maxSecret {
		return errors.New("send the value on standard input: operate -do secret NAME <FILE")
	}
	function, err := o.lambdas.GetFunctionConfiguration(ctx,
		&lambda.GetFunctionConfigurationInput{FunctionName: aws.String(o.outputs["WorkerFunctionName"])})
	if err != nil {
		return err
	}
	if function.Environment == nil || function.Environment.Variables["SECRETS_ARN"] == "" {
		return errors.New("the worker has no SECRETS_ARN")
	}
	id := function.Environment.Variables["SECRETS_ARN"]
	now, err := o.secrets.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &id})
	if err != nil {
		return err
	}
	kept := map[string]string{}
	if err := json.Unmarshal([]byte(aws.ToString(now.SecretString)), &kept); err != nil {
		return fmt.Errorf("the deployment's secret must be a JSON object of strings: %w", err)
	}
	kept[name] = value
	o.printf("the deployment's secrets are %s", strings.Join(slices.Sorted(maps.Keys(kept)), ", "))
	if !o.do {
		o.printf("%s would be set; add -do to do it", name)
		return nil
	}
	whole, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	_, err = o.secrets.PutSecretValue(ctx,
		&secretsmanager.PutSecretValueInput{SecretId: &id, SecretString: aws.String(string(whole))})
	return err
}
