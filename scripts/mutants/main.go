// Command mutants measures how much of a package's behaviour the tests check: it makes small changes to the
// package (mutants: a negated condition, a bound moved by one, a removed statement, write, condition of a write or
// case, an error returned as nil), runs the tests on each, and counts those that no test notices. Existing tools
// (gremlins, go-mutesting, ooze) compile and link for each mutant and know only the tests of the package; here a
// program with all mutants is compiled once, each behind a switch, and the killers include the simulation and the
// scenarios over HTTP.
//
// A killer runs only for mutants that its tests execute, in this order: the package's own tests, those of packages
// that depend on it (near; the fastest first), the simulation, the scenarios. A mutant that survives all is
// printed with its place, before → after: it is a hole in the tests, or code that nothing needs. Mutants that do
// not matter are listed in explained.txt with the reason, and do not count. A line there of a mutant that its package
// does not have (any more) ends the run before it begins.
//
// The tree is not changed: the compiler gets copies through -overlay. It imports only the standard library.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

type settings struct {
	sample, workers, seeds int
	seed                   uint64
	killers, only, results string
	packages               []string
}

func main() {
	var s settings
	flag.IntVar(&s.sample, "sample", 0, "so many mutants of each package, instead of all")
	flag.Uint64Var(&s.seed, "seed", 1, "which sample")
	flag.IntVar(&s.workers, "workers", 2, "so many mutants at a time")
	flag.IntVar(&s.seeds, "seeds", 200, "so many seeds of the simulation")
	flag.StringVar(&s.killers, "killers", "own,near,sim,stories", "who is asked")
	flag.StringVar(&s.only, "only", "", "a pattern: only mutants that read so")
	flag.StringVar(&s.results, "results", "",
		"a file of kills, read first and added to: what stands there is not killed again")
	flag.Parse()
	s.packages = flag.Args()
	if err := run(context.Background(), s, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// listed is a package as go list describes it.
type listed struct {
	Name, ImportPath, Dir, Export string
	GoFiles                       []string
	Deps                          []string
	TestImports                   []string
	XTestImports                  []string
	DepOnly                       bool
}

func list(ctx context.Context, patterns ...string) ([]listed, error) {
	out, err := output(exec.CommandContext(ctx, "go", append([]string{"list", "-export", "-deps",
		"-json=ImportPath,Dir,Export,GoFiles,TestImports,XTestImports,DepOnly"}, patterns...)...))
	if err != nil {
		return nil, err
	}
	return decoded(out)
}

func decoded(out []byte) ([]listed, error) {
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func output(c *exec.Cmd) ([]byte, error) {
	var complaint bytes.Buffer
	c.Stderr = &complaint
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, complaint.String())
	}
	return out, nil
}

// copies writes the packages with their mutants into dir, and a list of the copies for the compiler's -overlay.
func copies(packages []listed, dir string) (all []mutant, overlay string, err error) {
	exports := map[string]string{}
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	replace, number := map[string]string{}, 0
	for _, p := range packages {
		if p.DepOnly {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, "", err
			}
			files = append(files, f)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}}
		if _, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, files, info); err != nil {
			return nil, "", err
		}
		for _, f := range files {
			at := fset.Position(f.Package).Filename
			source, err := os.ReadFile(at)
			if err != nil {
				return nil, "", err
			}
			m := mutator{
				pkg: p.ImportPath, file: at, source: source, fset: fset, info: info, number: &number,
				around: map[ast.Node][]edge{}, decided: map[ast.Node]bool{}, last: map[ast.Stmt]bool{},
				operators: map[ast.Node]token.Pos{},
			}
			replace[at] = filepath.Join(dir, strconv.Itoa(len(replace))+".go")
			if err := os.WriteFile(replace[at], m.mutate(f), 0o600); err != nil {
				return nil, "", err
			}
			all = append(all, m.mutants...)
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return all, overlay, os.WriteFile(overlay, b, 0o600)
}

// killer is a test program.
type killer struct {
	name, pkg string
	arguments []string
	binary    string
	dir       string
	work      time.Duration // CPU time: a mutant that takes more hangs, which is a kill
	patience  time.Duration // wall time, for a mutant that only waits
	reached   map[int]bool
}

// build compiles the killer's tests with all mutants, and runs them without one: which mutants do they execute,
// and how long does it take?
func (k *killer) build(ctx context.Context, overlay, dir string) error {
	at, err := output(exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", k.pkg))
	if err != nil {
		return err
	}
	k.dir = strings.TrimSpace(string(at))
	k.binary = filepath.Join(dir, k.name+"-"+strings.ReplaceAll(k.pkg, "/", "-")+".test")
	compile := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", k.binary, k.pkg)
	if _, err := output(compile); err != nil {
		return err
	}
	if _, err := os.Stat(k.binary); errors.Is(err, os.ErrNotExist) {
		return nil // it has no tests
	}
	log := k.binary + ".log"
	k.work, k.patience = time.Hour, time.Hour
	began, plain := time.Now(), k.command(ctx, "MUTANT_LOG="+log)
	out, err := plain.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s of %s fails without any mutant: %w\n%s", k.name, k.pkg, err, out)
	}
	k.work = 4*(plain.ProcessState.UserTime()+plain.ProcessState.SystemTime()) + 2*time.Second
	k.patience = 4*time.Since(began) + 15*time.Second
	k.reached = map[int]bool{}
	b, err := os.ReadFile(log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, line := range strings.Fields(string(b)) {
		n, err := strconv.Atoi(line)
		if err != nil {
			return err
		}
		k.reached[n] = true
	}
	return nil
}

// command runs the killer with limits: a mutant may use unlimited time and memory.
func (k *killer) command(ctx context.Context, environ string) *exec.Cmd {
	arguments := append([]string{
		"-c", `ulimit -t "$1"; ulimit -v 8000000; shift; exec nice "$@"`, "sh", strconv.Itoa(int(k.work.Seconds())),
		k.binary,
		"-test.failfast", "-test.timeout", k.patience.String(),
	}, k.arguments...)
	c := exec.CommandContext(ctx, "sh", arguments...)
	c.Dir = k.dir
	c.Env = append(os.Environ(), environ, "GOMAXPROCS=1")
	return c
}

// kills says whether a mutant fails the killer's tests, twice where a busy machine might have been the cause.
func (k *killer) kills(ctx context.Context, m mutant) bool {
	fails := func() bool { return k.command(ctx, "MUTANT="+strconv.Itoa(m.number)).Run() != nil }
	return fails() && (k.name != "stories" || fails())
}

func run(ctx context.Context, s settings, w io.Writer) error {
	packages, err := list(ctx, s.packages...)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	all, overlay, err := copies(packages, dir)
	if err != nil {
		return err
	}
	explained, err := readExplained(reasons)
	if err != nil {
		return err
	}
	if err := stale(all, explained); err != nil {
		return err
	}
	chosen, err := choose(all, s)
	if err != nil {
		return err
	}
	killers, err := s.build(ctx, packages, overlay, dir)
	if err != nil {
		return err
	}
	fates, err := readResults(s.results)
	if err != nil {
		return err
	}
	kept := io.Discard
	if s.results != "" {
		f, err := os.OpenFile(s.results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		kept = f
	}
	for m, killer := range hunt(ctx, chosen, fates, killers, s.workers) {
		fates[m.key()] = killer
		_, _ = fmt.Fprintf(kept, "%s\t%s\n", killer, m.key())
	}
	report(w, chosen, fates, explained)
	return nil
}

// choose takes a sample of each package.
func choose(all []mutant, s settings) ([]mutant, error) {
	only, err := regexp.Compile(s.only)
	if err != nil {
		return nil, err
	}
	of := map[string][]mutant{}
	for _, m := range all {
		if only.MatchString(m.String()) {
			of[m.pkg] = append(of[m.pkg], m)
		}
	}
	var chosen []mutant
	for _, list := range of {
		if s.sample > 0 && s.sample < len(list) {
			r := rand.New(rand.NewPCG(s.seed, 0))
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			list = list[:s.sample]
		}
		chosen = append(chosen, list...)
	}
	slices.SortFunc(chosen, func(a, b mutant) int { return cmp.Compare(a.number, b.number) })
	return chosen, nil
}

func (s settings) build(ctx context.Context, packages []listed, overlay, dir string) ([]*killer, error) {
	var killers []*killer
	order := strings.Split(s.killers, ",")
	for _, name := range order {
		switch name {
		case "own":
			for _, p := range packages {
				if p.DepOnly || len(p.TestImports)+len(p.XTestImports) == 0 {
					continue
				}
				k := &killer{name: name, pkg: p.ImportPath}
				if slices.Contains(append(p.TestImports, p.XTestImports...), "pgregory.net/rapid") {
					k.arguments = []string{"-rapid.nofailfile", "-rapid.seed=1"}
				}
				killers = append(killers, k)
			}
		case "near":
			near, err := dependants(ctx, packages)
			if err != nil {
				return nil, err
			}
			killers = append(killers, near...)
		case "sim":
			killers = append(killers, &killer{name: name, pkg: "agentplatform/internal/sim",
				arguments: []string{"-test.run", "TestSimulation$", "-seeds", strconv.Itoa(s.seeds)}})
		case "stories":
			killers = append(killers, &killer{name: name, pkg: "agentplatform/functions/local",
				arguments: []string{"-test.run", "TestScenarios|TestAuthorisation", "-test.parallel", "8"}})
		case "": // the results suffice
		default:
			return nil, fmt.Errorf("-killers: there is no %q", name)
		}
	}
	for _, k := range killers {
		if err := k.build(ctx, overlay, dir); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(killers, func(a, b *killer) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.name), slices.Index(order, b.name)),
			cmp.Compare(a.work, b.work))
	})
	return killers, nil
}

// dependants are the tests of packages that depend on one of these: use cases and adapters, which take seconds.
func dependants(ctx context.Context, packages []listed) ([]*killer, error) {
	out, err := output(exec.CommandContext(ctx, "go", "list", "-test", "-json=Name,ImportPath,Deps",
		"agentplatform/internal/..."))
	if err != nil {
		return nil, err
	}
	all, err := decoded(out)
	if err != nil {
		return nil, err
	}
	var killers []*killer
	for _, p := range all {
		pkg, program := strings.CutSuffix(p.ImportPath, ".test")
		made := func(one listed) bool {
			return !one.DepOnly && one.ImportPath != pkg && slices.Contains(p.Deps, one.ImportPath)
		}
		if program && !long.MatchString(pkg) && slices.ContainsFunc(packages, made) {
			killers = append(killers, &killer{name: "near", pkg: pkg})
		}
	}
	return killers, nil
}

// long are packages whose tests take minutes, or are killers of their own.
var long = regexp.MustCompile(`^agentplatform/internal/(sim|explore|linear|crash|cloud|imports)(/|$)`)

// hunt runs the killers on each undecided mutant, several at a time, until one kills it.
func hunt(
	ctx context.Context, chosen []mutant, done map[string]string, killers []*killer, workers int,
) func(func(mutant, string) bool) {
	queue, killed := make(chan mutant), make(chan [2]any)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for m := range queue {
				for _, k := range killers {
					if k.reached[m.number] && (k.name != "own" || k.pkg == m.pkg) && k.kills(ctx, m) {
						killed <- [2]any{m, k.name}
						break
					}
				}
			}
		})
	}
	pending := slices.DeleteFunc(slices.Clone(chosen), func(m mutant) bool { return done[m.key()] != "" })
	go func() {
		for i, m := range pending {
			if i%50 == 0 {
				fmt.Fprintf(os.Stderr, "%s %d of %d\n", time.Now().Format(time.TimeOnly), i, len(pending))
			}
			queue <- m
		}
		close(queue)
		all.Wait()
		close(killed)
	}()
	return func(yield func(mutant, string) bool) {
		for k := range killed {
			yield(k[0].(mutant), k[1].(string))
		}
	}
}

func readResults(file string) (map[string]string, error) {
	fates := map[string]string{}
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return fates, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		killer, key, _ := strings.Cut(lines.Text(), "\t")
		fates[key] = killer
	}
	return fates, lines.Err()
}

// report prints the fates of the mutants.
func report(w io.Writer, chosen []mutant, fates map[string]string, explained map[string]int) {
	counts, names := map[string]map[string]int{}, []string{}
	for _, m := range chosen {
		fate := fates[m.key()]
		if fate == "" {
			fate = "survived"
			if explained[m.key()] > 0 {
				fate = "explained"
			} else {
				_, _ = fmt.Fprintf(w, "survived: %s\n", m)
			}
		}
		if counts[m.pkg] == nil {
			counts[m.pkg] = map[string]int{}
			names = append(names, m.pkg)
		}
		counts[m.pkg][fate]++
		counts[m.pkg]["mutants"]++
	}
	_, _ = fmt.Fprintf(w, "%-40s %8s %8s %8s %8s %8s %9s %8s %8s\n",
		"package", "mutants", "own", "near", "sim", "stories", "explained", "survived", "score")
	for _, name := range names {
		c := counts[name]
		score := 100 * float64(c["own"]+c["near"]+c["sim"]+c["stories"]) / float64(max(1, c["mutants"]-c["explained"]))
		_, _ = fmt.Fprintf(w, "%-40s %8d %8d %8d %8d %8d %9d %8d %7.1f%%\n",
			name, c["mutants"], c["own"], c["near"], c["sim"], c["stories"], c["explained"], c["survived"], score)
	}
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %s", m.file, m.line, m.key())
}
