package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	restate "github.com/restatedev/sdk-go"
	restateserver "github.com/restatedev/sdk-go/server"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// Chat is what is posted, and what is answered.
type Chat struct {
	Message string `json:"message,omitempty"`
	Answer  string `json:"answer,omitempty"`
}

// serveSystem is the program that a user of one of the others writes: it serves until the context ends.
func serveSystem(ctx context.Context, system, address, database string) error {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	switch system {
	case "dbos":
		return serveDBOS(ctx, address, database)
	case "river":
		return serveRiver(ctx, address, database, river.Config{Queues: queues(100)}, nil)
	case "river-tuned": // as in River's own benchmark
		return serveRiver(ctx, address, database, river.Config{Queues: queues(2000),
			FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond}, &ends{})
	case "restate":
		return serveRestate(ctx, address)
	}
	return fmt.Errorf("there is no server of %q", system)
}

// serveChats serves POST /chat with what answers a message.
func serveChats(ctx context.Context, address string, answer func(context.Context, string) (string, error)) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /chat", func(w http.ResponseWriter, r *http.Request) {
		var chat Chat
		if err := json.NewDecoder(r.Body).Decode(&chat); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		said, err := answer(r.Context(), chat.Message)
		if err != nil {
			slog.Error("the run failed", "error", err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(Chat{Answer: said})
	})
	s := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		stopped <- s.Shutdown(ending)
	}()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// think stands for a model that answers at once, finish for what is done with its answer.
func think(message string) string { return "You said: " + message }

func finish(answer string) string { return strings.TrimSpace(answer) }

func serveDBOS(ctx context.Context, address, database string) error {
	d, err := dbos.NewContext(context.WithoutCancel(ctx), dbos.Config{AppName: "versus", DatabaseURL: database,
		Logger: slog.Default()})
	if err != nil {
		return err
	}
	dbos.RegisterWorkflow(d, chatWorkflow)
	if err := dbos.Launch(d); err != nil {
		return err
	}
	err = serveChats(ctx, address, func(_ context.Context, message string) (string, error) {
		handle, err := dbos.RunWorkflow(d, chatWorkflow, message)
		if err != nil {
			return "", err
		}
		return handle.GetResult()
	})
	return errors.Join(err, dbos.Shutdown(d, 10*time.Second))
}

func chatWorkflow(ctx dbos.Context, message string) (string, error) {
	said, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) { return think(message), nil },
		dbos.WithStepName("think"))
	if err != nil {
		return "", err
	}
	return dbos.RunAsStep(ctx, func(context.Context) (string, error) { return finish(said), nil },
		dbos.WithStepName("finish"))
}

// Kind is the name of the job.
func (Chat) Kind() string { return "chat" }

type chatWorker struct {
	river.WorkerDefaults[Chat]
	pool  *pgxpool.Pool
	early *ends // told of a job's end by the worker; nil: by the subscription
}

// Work does both steps and leaves the answer as the job's output.
func (w *chatWorker) Work(ctx context.Context, job *river.Job[Chat]) error {
	if w.early != nil {
		return w.commitEach(ctx, job)
	}
	var said string
	river.ResumableStep(ctx, "think", nil, func(context.Context) error {
		said = think(job.Args.Message)
		return nil
	})
	river.ResumableStep(ctx, "finish", nil, func(ctx context.Context) error {
		return river.RecordOutput(ctx, finish(said))
	})
	return nil
}

// commitEach commits the first step, and with the second one the end of the job, which River else does later for many
// jobs together.
func (w *chatWorker) commitEach(ctx context.Context, job *river.Job[Chat]) error {
	var said string
	river.ResumableStep(ctx, "think", nil, func(ctx context.Context) error {
		said = think(job.Args.Message)
		return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
			_, err := river.ResumableSetStepTx[*riverpgxv5.Driver](ctx, tx, job)
			return err
		})
	})
	river.ResumableStep(ctx, "finish", nil, func(ctx context.Context) error {
		if err := river.RecordOutput(ctx, finish(said)); err != nil {
			return err
		}
		var done *river.Job[Chat]
		err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) (err error) {
			done, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
			return err
		})
		if err == nil {
			w.early.of(job.ID) <- done.JobRow
		}
		return err
	})
	return nil
}

func queues(workers int) map[string]river.QueueConfig {
	return map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}}
}

// serveRiver tells those that wait of a job's end by early, where there is one, else by the subscription.
func serveRiver(ctx context.Context, address, database string, config river.Config, early *ends) error {
	pool, err := pgxpool.New(ctx, database+"?pool_max_conns=20")
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	config.Logger = slog.Default()
	config.Workers = river.NewWorkers()
	river.AddWorker(config.Workers, &chatWorker{pool: pool, early: early})
	client, err := river.NewClient(riverpgxv5.New(pool), &config)
	if err != nil {
		return err
	}
	ends := early
	if ends == nil {
		ends = subscribe(client)
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	err = serveChats(ctx, address, func(ctx context.Context, message string) (string, error) {
		return runJob(ctx, client, ends, message)
	})
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	return errors.Join(err, client.Stop(ending))
}

func subscribe(client *river.Client[pgx.Tx]) *ends {
	events, _ := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 100_000,
		Kinds: []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled}})
	e := &ends{}
	go func() {
		for event := range events {
			e.of(event.Job.ID) <- event.Job
		}
	}()
	return e
}

func runJob(ctx context.Context, client *river.Client[pgx.Tx], ends *ends, message string) (string, error) {
	inserted, err := client.Insert(ctx, Chat{Message: message}, nil)
	if err != nil {
		return "", err
	}
	select {
	case job := <-ends.of(inserted.Job.ID):
		ends.waiting.Delete(job.ID)
		if job.State != rivertype.JobStateCompleted {
			return "", fmt.Errorf("job %d is %s", job.ID, job.State)
		}
		var said string
		err := json.Unmarshal(job.Output(), &said)
		return said, err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// ends tells those that wait for a job of its end, which may be known before Insert returns.
type ends struct {
	waiting sync.Map // of channels, by the id of the job
}

func (e *ends) of(job int64) chan *rivertype.JobRow {
	c, _ := e.waiting.LoadOrStore(job, make(chan *rivertype.JobRow, 1))
	return c.(chan *rivertype.JobRow)
}

// Agent is the service of Restate.
type Agent struct{}

// Chat does both steps, each of which is in the journal of the invocation before the next begins.
func (Agent) Chat(ctx restate.Context, chat Chat) (Chat, error) {
	said, err := restate.Run(ctx, func(restate.RunContext) (string, error) { return think(chat.Message), nil },
		restate.WithName("think"))
	if err != nil {
		return Chat{}, err
	}
	said, err = restate.Run(ctx, func(restate.RunContext) (string, error) { return finish(said), nil },
		restate.WithName("finish"))
	if err != nil {
		return Chat{}, err
	}
	return Chat{Answer: said}, nil
}

func serveRestate(ctx context.Context, address string) error {
	return restateserver.NewRestate().WithLogger(slog.Default().Handler(), true).Bind(restate.Reflect(Agent{})).
		Start(ctx, address)
}
