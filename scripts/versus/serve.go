package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	restate "github.com/restatedev/sdk-go"
	restateserver "github.com/restatedev/sdk-go/server"
)

// Chat is the body of a request and of its response.
type Chat struct {
	Message string `json:"message,omitempty"`
	Answer  string `json:"answer,omitempty"`
}

// serveSystem is the program that a user of DBOS or Restate writes. It serves until it is stopped.
func serveSystem(system, address, database string) error {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	switch system {
	case "dbos":
		return serveDBOS(address, database)
	case "restate":
		return restateserver.NewRestate().WithLogger(slog.Default().Handler(), true).Bind(restate.Reflect(Agent{})).
			Start(context.Background(), address)
	}
	return fmt.Errorf("there is no server of %q", system)
}

// serveChats serves POST /chat with a function that answers messages.
func serveChats(address string, answer func(message string) (string, error)) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /chat", func(w http.ResponseWriter, r *http.Request) {
		var chat Chat
		if err := json.NewDecoder(r.Body).Decode(&chat); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		text, err := answer(chat.Message)
		if err != nil {
			slog.Error("the run failed", "error", err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(Chat{Answer: text})
	})
	s := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return s.ListenAndServe()
}

// think stands for a model that answers immediately, finish for the work on its answer.
func think(message string) string { return "You said: " + message }

func finish(answer string) string { return strings.TrimSpace(answer) }

func serveDBOS(address, database string) error {
	d, err := dbos.NewContext(context.Background(), dbos.Config{AppName: "versus", DatabaseURL: database,
		Logger: slog.Default()})
	if err != nil {
		return err
	}
	dbos.RegisterWorkflow(d, chatWorkflow)
	if err := dbos.Launch(d); err != nil {
		return err
	}
	return serveChats(address, func(message string) (string, error) {
		handle, err := dbos.RunWorkflow(d, chatWorkflow, message)
		if err != nil {
			return "", err
		}
		return handle.GetResult()
	})
}

func chatWorkflow(ctx dbos.Context, message string) (string, error) {
	thought, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) { return think(message), nil },
		dbos.WithStepName("think"))
	if err != nil {
		return "", err
	}
	return dbos.RunAsStep(ctx, func(context.Context) (string, error) { return finish(thought), nil },
		dbos.WithStepName("finish"))
}

// Agent is the service of Restate.
type Agent struct{}

// Chat does both steps. Each is in the journal of the invocation before the next begins.
func (Agent) Chat(ctx restate.Context, chat Chat) (Chat, error) {
	thought, err := restate.Run(ctx, func(restate.RunContext) (string, error) { return think(chat.Message), nil },
		restate.WithName("think"))
	if err != nil {
		return Chat{}, err
	}
	thought, err = restate.Run(ctx, func(restate.RunContext) (string, error) { return finish(thought), nil },
		restate.WithName("finish"))
	if err != nil {
		return Chat{}, err
	}
	return Chat{Answer: thought}, nil
}
