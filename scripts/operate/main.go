// Command operate has the commands for operators of a deployment that the API does not have. They show dead letters and
// runs, audit slots, and restore stored data. It finds a stage's resources by the outputs of its stacks, and changes
// nothing without -do. The command nudge sends a wakeup.
//
//	go run ./scripts/operate -stage dev dead-letters run
//	go run ./scripts/operate -stage dev -do redrive run
//	go run ./scripts/operate -stage dev -do discard run MESSAGE_ID
//	go run ./scripts/operate -stage dev show RUN_ID (or DOCUMENT_ID)
//	go run ./scripts/operate -stage dev -do nudge RUN_ID (or DOCUMENT_ID)
//	go run ./scripts/operate -stage dev slots ORGANIZATION_ID
//	go run ./scripts/operate -stage dev -do stop functions (and start functions)
//	go run ./scripts/operate -stage dev -do restore table FROM
//	go run ./scripts/operate -stage dev -do restore blobs 2026-01-31T12:00:00Z
//	go run ./scripts/operate -stage dev -do restore index
//	go run ./scripts/operate -stage dev -do secret OPENAI_API_KEY <FILE
//	go run ./scripts/operate -stage dev -do empty blobs
//	go run ./scripts/operate -stage dev -do reroll ORGANIZATION_ID 2026-01-31
//	go run ./scripts/operate -stage dev invoke worker events/samples/worker.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"agentplatform/events"
	"agentplatform/internal/org/analytics"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/queue/sqsqueue"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/dynamotable"
)

func main() {
	stage := flag.String("stage", "", "the stage, as in infra/stage")
	do := flag.Bool("do", false, "do it; without this flag the command only prints its effects")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *stage, *do, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "operate:", err)
		os.Exit(1)
	}
}

// operator works on a stage.
type operator struct {
	out     io.Writer
	do      bool
	outputs map[string]string
	queues  *sqs.Client
	tables  *dynamodb.Client
	objects *s3.Client
	lambdas *lambda.Client
	secrets *secretsmanager.Client
	store   *record.Store
}

func run(ctx context.Context, out io.Writer, stage string, do bool, args []string) error {
	if stage == "" || len(args) < 2 {
		return errors.New("use -stage NAME and a command: dead-letters, redrive or discard QUEUE; show or nudge " +
			"RUN or DOCUMENT; slots ORGANIZATION; stop or start functions; restore table FROM, restore blobs TIME, " +
			"restore index; secret NAME; empty blobs; reroll ORGANIZATION DATE; invoke FUNCTION FILE")
	}
	account, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	o := &operator{
		out: out, do: do, outputs: map[string]string{}, queues: sqs.NewFromConfig(account),
		tables: dynamodb.NewFromConfig(account), lambdas: lambda.NewFromConfig(account),
		secrets: secretsmanager.NewFromConfig(account),
		objects: s3.NewFromConfig(account, func(s *s3.Options) { s.UsePathStyle = account.BaseEndpoint != nil }),
	}
	for _, stack := range []string{"data", "service"} {
		found, err := cloudformation.NewFromConfig(account).DescribeStacks(ctx,
			&cloudformation.DescribeStacksInput{StackName: aws.String("agents-" + stage + "-" + stack)})
		if err != nil {
			return err
		}
		for _, output := range found.Stacks[0].Outputs {
			o.outputs[aws.ToString(output.OutputKey)] = aws.ToString(output.OutputValue)
		}
	}
	machine := host.System()
	o.store = record.New(dynamotable.New(o.tables, o.outputs["CoreTable"], machine.Now),
		&memblob.Store{}, machine)
	switch what, which := args[0], args[1]; what {
	case "dead-letters":
		return o.deadLetters(ctx, which, func(types.Message) (bool, error) { return false, nil })
	case "redrive":
		return o.redrive(ctx, which)
	case "discard":
		return o.discard(ctx, which, args[2:])
	case "show":
		return o.show(ctx, which)
	case "nudge":
		return o.sendWakeup(ctx, which)
	case "slots":
		return o.slots(ctx, which)
	case "stop", "start":
		return o.halt(ctx, what == "stop", which)
	case "secret":
		return o.secret(ctx, which, os.Stdin)
	case "empty":
		return o.empty(ctx, which)
	case "restore":
		return o.restore(ctx, which, args[2:])
	case "reroll":
		return o.reroll(ctx, which, args[2:])
	case "invoke":
		return o.invoke(ctx, which, args[2:])
	default:
		return fmt.Errorf("unknown command %q", what)
	}
}

func (o *operator) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(o.out, format+"\n", args...)
}

// queue finds a queue and its dead-letter queue by purpose: run, webhook, job or ingest.
func (o *operator) queue(name string) (address, dead string, err error) {
	if name == "" {
		return "", "", errors.New("a queue is required: run, webhook, job or ingest")
	}
	prefix := strings.ToUpper(name[:1]) + name[1:]
	address, dead = o.outputs[prefix+"QueueAddress"], o.outputs[prefix+"DeadAddress"]
	if address == "" || dead == "" {
		return "", "", fmt.Errorf("unknown queue %q: use run, webhook, job or ingest", name)
	}
	return address, dead, nil
}

// releaseTime is the time for making listed dead letters visible again. If that fails, they become visible after a
// minute.
const releaseTime = 20 * time.Second

// maxReceives limits the receives for listing dead letters; each returns up to ten.
const maxReceives = 100

// deadLetters lists a queue's dead letters and calls see with each, which returns whether it has deleted it. The
// messages are invisible meanwhile, so that none is listed twice. At the end they are visible again, to the next
// command and to the alarm that counts them.
func (o *operator) deadLetters(ctx context.Context, name string, see func(types.Message) (bool, error)) (err error) {
	_, dead, err := o.queue(name)
	if err != nil {
		return err
	}
	count := 0
	var stay []types.Message
	defer func() { err = errors.Join(err, o.release(ctx, dead, stay)) }()
	for range maxReceives {
		out, err := o.queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &dead, MaxNumberOfMessages: 10, VisibilityTimeout: 60, WaitTimeSeconds: 1,
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			return err
		}
		if len(out.Messages) == 0 {
			break
		}
		for _, m := range out.Messages {
			count++
			o.printf("%s  received %s times  %s", aws.ToString(m.MessageId), m.Attributes["ApproximateReceiveCount"],
				aws.ToString(m.Body))
			gone, err := see(m)
			if !gone {
				stay = append(stay, m)
			}
			if err != nil {
				return err
			}
		}
	}
	o.printf("%d dead letters", count)
	return nil
}

// release makes messages visible again, also when ctx has ended.
func (o *operator) release(ctx context.Context, queue string, messages []types.Message) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	for some := range slices.Chunk(messages, 10) {
		in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &queue}
		for i, m := range some {
			in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0})
		}
		if _, err := o.queues.ChangeMessageVisibilityBatch(ctx, in); err != nil {
			return fmt.Errorf("the listed messages are visible again in one minute: %w", err)
		}
	}
	return nil // a message that is not in flight any more is visible already
}

// redrive sends dead letters to their queue again. It sends a message before it deletes it, because sending it twice is
// harmless.
func (o *operator) redrive(ctx context.Context, name string) error {
	address, dead, err := o.queue(name)
	if err != nil {
		return err
	}
	return o.deadLetters(ctx, name, func(m types.Message) (bool, error) {
		_, poison := sqsqueue.Delivered(aws.ToString(m.Body), "", m.Attributes)
		switch {
		case poison != nil:
			o.printf("  stays, because it would fail again; discard it: %v", poison)
			return false, nil //nolint:nilerr // said just now
		case !o.do:
			o.printf("  would be sent again; add -do to do it")
			return false, nil
		}
		in := &sqs.SendMessageInput{QueueUrl: &address, MessageBody: m.Body}
		if group := m.Attributes["MessageGroupId"]; group != "" {
			in.MessageGroupId = &group
		}
		if _, err := o.queues.SendMessage(ctx, in); err != nil {
			return false, err
		}
		o.printf("  sent again")
		return o.delete(ctx, dead, m)
	})
}

// delete deletes a message, and returns whether it did.
func (o *operator) delete(ctx context.Context, queue string, m types.Message) (bool, error) {
	_, err := o.queues.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &queue, ReceiptHandle: m.ReceiptHandle})
	return err == nil, err
}

// discard removes the dead letters with these ids.
func (o *operator) discard(ctx context.Context, name string, ids []string) error {
	if len(ids) == 0 {
		return errors.New("a message id is required: discard QUEUE MESSAGE_ID...; dead-letters lists the ids")
	}
	_, dead, err := o.queue(name)
	if err != nil {
		return err
	}
	slices.Sort(ids)
	left := slices.Compact(slices.Clone(ids))
	err = o.deadLetters(ctx, name, func(m types.Message) (bool, error) {
		at := slices.Index(left, aws.ToString(m.MessageId))
		switch {
		case at < 0:
			return false, nil
		case !o.do:
			o.printf("  would be discarded; add -do to do it")
		default:
			o.printf("  discarded")
		}
		left = slices.Delete(left, at, at+1)
		if !o.do {
			return false, nil
		}
		return o.delete(ctx, dead, m)
	})
	if err == nil && len(left) > 0 {
		return fmt.Errorf("not among the dead letters listed: %s", strings.Join(left, ", "))
	}
	return err
}

// found is a run or a document, with its owner and the queue for its wakeup.
type found struct {
	stored       any
	organization string
	status       string
	version      int64
	due          time.Time
	kind         events.WakeupKind
	queue        string // the output that has its address
}

// find finds the run or the document with this id.
func (o *operator) find(ctx context.Context, id string) (found, error) {
	run, err := o.store.Run(ctx, record.System(), id)
	if err == nil {
		return found{run.Value, run.Value.Organization, string(run.Value.Status), run.Version(), run.Value.Due,
			events.WakeupRun, "RunQueueAddress"}, nil
	}
	if !problem.Is(err, "not_found") {
		return found{}, err
	}
	d, err := record.Resource[catalog.Document](ctx, o.store, record.System(), id)
	if problem.Is(err, "not_found") {
		return found{}, fmt.Errorf("no run or document has the id %s", id)
	}
	return found{d.Value, d.Value.Organization, string(d.Value.Ingestion.Status), d.Version(), d.Value.Ingestion.Due,
		events.WakeupDocument, "IngestQueueAddress"}, err
}

// show prints a run or a document as stored.
func (o *operator) show(ctx context.Context, id string) error {
	f, err := o.find(ctx, id)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(f.stored, "", "  ")
	if err != nil {
		return err
	}
	o.printf("%s", b)
	o.printf("organization %s, version %d, due %s", f.organization, f.version, f.due)
	return nil
}

// sendWakeup sends a wakeup for a run or a document.
func (o *operator) sendWakeup(ctx context.Context, id string) error {
	f, err := o.find(ctx, id)
	if err != nil {
		return err
	}
	o.printf("%s %s is %s", f.kind, id, f.status)
	if !o.do {
		o.printf("it would be processed; add -do to do it")
		return nil
	}
	return sqsqueue.New(o.queues, o.outputs[f.queue]).Send(ctx, queue.Message{
		Wakeup: events.Wakeup{Kind: f.kind, ID: id}, Group: f.organization,
	})
}

// reroll marks an organization's ledger for another rollup from a day on. The next request for its figures does it, or
// the daily job.
func (o *operator) reroll(ctx context.Context, organization string, days []string) error {
	if len(days) != 1 {
		return errors.New("a first day in UTC is required: reroll ORGANIZATION 2026-01-31")
	}
	from, err := time.Parse(time.DateOnly, days[0])
	if err != nil {
		return err
	}
	scope := record.Of(organization)
	if _, err := record.Resource[catalog.Organization](ctx, o.store, scope, organization); err != nil {
		return err
	}
	before, err := o.store.Rolled(ctx, scope)
	if err != nil {
		return err
	}
	o.printf("days are rolled up until %s, and final until %s", before.Value.Days, before.Value.Checked)
	if !o.do {
		o.printf("they would be rolled up again from %s on; add -do to do it", from)
		return nil
	}
	return (&analytics.Analytics{Store: o.store, Host: host.System()}).Again(ctx, organization, from)
}

// invoke invokes a function with an event from a file.
func (o *operator) invoke(ctx context.Context, name string, files []string) error {
	function := o.outputs[strings.ToUpper(name[:1])+name[1:]+"FunctionName"]
	if function == "" || len(files) != 1 {
		return fmt.Errorf("use invoke FUNCTION FILE, with one file: %q is not a function, or the file is missing",
			name)
	}
	event, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	out, err := o.lambdas.Invoke(ctx, &lambda.InvokeInput{FunctionName: &function, Payload: event})
	if err != nil {
		return err
	}
	o.printf("%s", out.Payload)
	if out.FunctionError != nil {
		return fmt.Errorf("the function failed: %s", *out.FunctionError)
	}
	return nil
}

// slots compares an organization's slots of active runs with the runs. Each pair is written in one commit, so a
// difference is a bug; one that is seen only once may be a run that changed between the two reads.
func (o *operator) slots(ctx context.Context, organization string) error {
	ids, err := o.store.ActiveRuns(ctx, organization)
	if err != nil {
		return err
	}
	wrong := 0
	for _, id := range ids {
		e, err := o.store.Run(ctx, record.System(), id)
		switch {
		case err != nil:
			wrong++
			o.printf("%s: %v", id, err)
		case !e.Value.Status.Active():
			wrong++
			o.printf("%s is %s, and holds a slot", id, e.Value.Status)
		default:
			o.printf("%s is %s", id, e.Value.Status)
		}
	}
	o.printf("%d active runs, %d wrong", len(ids), wrong)
	return nil
}
