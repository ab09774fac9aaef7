// Command benchstreams measures what a task of the stream service takes for streams of runs that speak all the time,
// with the client that it has on AWS.
//
// A child process stands in for the rest of the world: for DynamoDB, over HTTP, and for workers that say a few words of
// each run four times a second. This process has the readers, and prints how much of a processor it took, TLS and the
// writing of answers not included.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"agentplatform/internal/blob/memblob"
	"agentplatform/internal/host"
	"agentplatform/internal/lifecycle"
	"agentplatform/internal/record"
	"agentplatform/internal/stream"
	"agentplatform/internal/table/dynamotable"
)

var (
	streams = flag.Int("streams", 1000, "how many there are, each of a run of its own")
	seconds = flag.Duration("for", 20*time.Second, "how long they are measured")
	world   = flag.Bool("world", false, "be the child (for the program itself)")
)

// pace is how often a run says something, and readers look: as on AWS (internal/cloud).
const pace = 250 * time.Millisecond

func main() {
	flag.Parse()
	log.SetFlags(0)
	does := read
	if *world {
		does = serve
	}
	if err := does(); err != nil {
		log.Fatal(err)
	}
}

// read follows the streams, and prints what that took.
func read() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-world", "-streams", fmt.Sprint(*streams))
	child.Stderr, child.ExtraFiles = os.Stderr, []*os.File{file}
	if err := child.Start(); err != nil {
		return err
	}
	_, _ = l.Close(), file.Close() // it is the child's
	all.Go(func() {
		_ = child.Wait()
		cancel()
	})
	store, hub := open(dynamodb.NewFromConfig(aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String("http://" + l.Addr().String()),
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", "c"),
	}))
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if _, err := store.LiveRun(ctx, record.Of("o"), id(*streams-1)); err == nil {
			break // all runs are there
		} else if time.Since(begun) > time.Minute {
			return err
		}
	}
	var words atomic.Int64
	for i := range *streams {
		all.Go(func() {
			err := hub.Follow(ctx, store, record.Of("o"), id(i), 15*time.Second, func(e stream.Event) error {
				if e.Event == stream.Delta {
					words.Add(1)
				}
				_, err := json.Marshal(e)
				return err
			})
			if ctx.Err() == nil {
				log.Print(err)
			}
		})
	}
	time.Sleep(5 * time.Second) // until it is known that they speak
	begun, used, heard := time.Now(), processor(), words.Load()
	time.Sleep(*seconds)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the child has ended: %w", err)
	}
	took := time.Since(begun).Seconds()
	fmt.Printf("%d streams of runs that speak: %.0f deltas a second, %.2f of a processor\n", *streams,
		float64(words.Load()-heard)/took, (processor()-used).Seconds()/took)
	return nil
}

func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func id(i int) string { return fmt.Sprintf("%024d", i) }

// open is what a program on AWS has of the tables.
func open(api dynamotable.API) (*record.Store, *stream.Hub) {
	m := host.System()
	return record.New(dynamotable.New(api, "core", m.Now), &memblob.Store{}, m),
		stream.New(
			dynamotable.New(api, "feed", m.Now),
			stream.Polling{Host: m, Every: pace},
			m,
			slog.New(slog.DiscardHandler),
		)
}

// speak is the workers, over tables in their own process.
func speak(t *tables) error {
	ctx, m := context.Background(), host.System()
	store, hub := open(t)
	var writers []*stream.Writer
	for i := range *streams {
		now := m.Now()
		run := record.Run{Input: &record.Input{Message: "m"}, Run: lifecycle.Accept(
			lifecycle.RunSpec{RunID: id(i), Organization: "o", User: "u", Chat: fmt.Sprint(i), LimitMS: 60_000},
			lifecycle.ChatPosition{Turn: 1}, now, now.Add(time.Minute))}
		run.Status, run.Attempt = lifecycle.Running, 1
		run.Lease = lifecycle.Lease{Holder: "w", Until: now.Add(time.Hour)}
		tx := store.Begin(m.NewID())
		tx.PutRun(record.Fresh(run))
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		w := hub.Writer(run.ID(), 1, "", true)
		writers = append(writers, w)
		go w.Run(ctx, time.Hour) // it does not ask whether there are readers
	}
	for begun, n := time.Now(), 0; ; n++ {
		writers[n%*streams].Append(ctx, "a few words, ")
		time.Sleep(time.Until(begun.Add(pace * time.Duration(n) / time.Duration(*streams))))
	}
}

// key is that of an item, or of one among its attributes.
type key struct {
	Part struct{ S string } `json:"pk"`
	Sort struct{ S string } `json:"sk"`
}

// tables stand in for DynamoDB: they have items as they go over the wire, without conditions. In their own process
// they only take items.
type tables struct {
	dynamotable.API

	mu    sync.Mutex
	items map[string]map[string]json.RawMessage // by table and partition, and by their sort keys
}

func (t *tables) put(table string, item json.RawMessage) error {
	var k key
	if err := json.Unmarshal(item, &k); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := table + k.Part.S
	if t.items[at] == nil {
		t.items[at] = map[string]json.RawMessage{}
	}
	t.items[at][k.Sort.S] = item
	return nil
}

// get returns the items of a partition from low to high, or up to its end.
func (t *tables) get(table, part, low, high string) (list []json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.items[table+part]
	if low == high && low != "" {
		if item, is := of[low]; is {
			list = append(list, item)
		}
		return list
	}
	for _, sort := range slices.Sorted(maps.Keys(of)) {
		if sort >= low && (high == "" || sort <= high) {
			list = append(list, of[sort])
		}
	}
	return list
}

func (t *tables) PutItem(_ context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (
	*dynamodb.PutItemOutput, error) {
	item, err := json.Marshal(wire(&types.AttributeValueMemberM{Value: in.Item}).(map[string]any)["M"])
	if err == nil {
		err = t.put(*in.TableName, item)
	}
	return &dynamodb.PutItemOutput{}, err
}

func (t *tables) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput,
	_ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	for _, w := range in.TransactItems {
		if w.Put == nil {
			continue
		}
		if _, err := t.PutItem(ctx, &dynamodb.PutItemInput{TableName: w.Put.TableName, Item: w.Put.Item}); err != nil {
			return nil, err
		}
	}
	return &dynamodb.TransactWriteItemsOutput{}, nil
}

// wire is an attribute as it goes over the wire.
func wire(a types.AttributeValue) any {
	switch v := a.(type) {
	case *types.AttributeValueMemberM:
		all := map[string]any{}
		for name, one := range v.Value {
			all[name] = wire(one)
		}
		return map[string]any{"M": all}
	case *types.AttributeValueMemberL:
		all := []any{}
		for _, one := range v.Value {
			all = append(all, wire(one))
		}
		return map[string]any{"L": all}
	case *types.AttributeValueMemberS:
		return map[string]any{"S": v.Value}
	case *types.AttributeValueMemberN:
		return map[string]any{"N": v.Value}
	case *types.AttributeValueMemberBOOL:
		return map[string]any{"BOOL": v.Value}
	default:
		return map[string]any{"NULL": true}
	}
}

// serve is the child.
func serve() error {
	t := &tables{items: map[string]map[string]json.RawMessage{}}
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	go func() { log.Fatal(speak(t)) }()
	return http.Serve(l, t) //nolint:gosec // on loopback
}

func (t *tables) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		TableName                 string
		Item                      json.RawMessage
		Key                       key
		RequestItems              map[string]struct{ Keys []key }
		ExpressionAttributeValues map[string]struct{ S string }
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := map[string]any{}
	switch _, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); operation {
	case "PutItem":
		if err := t.put(in.TableName, in.Item); err != nil {
			log.Print(err)
		}
	case "GetItem":
		if found := t.get(in.TableName, in.Key.Part.S, in.Key.Sort.S, in.Key.Sort.S); len(found) == 1 {
			out["Item"] = found[0]
		}
	case "BatchGetItem":
		found := map[string][]json.RawMessage{}
		for table, asked := range in.RequestItems {
			for _, k := range asked.Keys {
				found[table] = append(found[table], t.get(table, k.Part.S, k.Sort.S, k.Sort.S)...)
			}
		}
		out["Responses"] = found
	case "Query":
		v := in.ExpressionAttributeValues
		out["Items"] = t.get(in.TableName, v[":p"].S, v[":l"].S, v[":h"].S)
	default:
		http.Error(w, operation, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(out)
}
