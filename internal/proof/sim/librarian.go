package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/text/ranking"
)

// librarian is a client that keeps documents. It makes knowledge bases, and adds, changes, deletes and searches
// documents.
type librarian struct{ *client }

// librarians makes a librarian of each user.
func (w *world) librarians() {
	for n, who := range w.people {
		name := fmt.Sprintf("librarian %d", n)
		l := librarian{&client{world: w, who: who, name: name, own: &process{name: name}}}
		w.spawn(l.own, name, func(a *actor) {
			for end := w.now.Add(w.trouble); w.now.Before(end) && !w.left[who.User]; {
				l.act(a)
				_ = w.sleep(a, context.Background(), time.Duration(w.work.Int64N(int64(90*time.Second))))
			}
		})
	}
}

func (l librarian) act(a *actor) {
	base := l.any(l.bases())
	if base == "" {
		l.createBase(a)
		return
	}
	document := l.any(l.documentsOf(base))
	switch n := l.work.IntN(100); {
	case n < 32:
		l.add(a, base)
	case n < 64:
		l.search(a)
	case n < 70:
		l.reprocess(a, base, document)
	case n < 74:
		l.replace(a, base, document)
	case n < 80:
		l.removeDocument(a, base, document)
	case n < 87:
		l.editDocument(a, base, document)
	case n < 90:
		l.editBase(a, base)
	case n < 93:
		l.rebuild(a, base)
	case n < 94:
		l.cancelRebuild(a, base)
	case n < 95:
		l.removeBase(a, base)
	case n < 97 && len(l.bases()) < 3:
		l.createBase(a)
	default: // the site's pages belong to others
		l.library.pages[l.work.IntN(pagesOfSite)]++
	}
}

// bases returns the ids of the organization's bases that are stored now.
func (l librarian) bases() (ids []string) {
	for _, id := range sortedKeys(l.library.documents.bases) {
		if l.library.documents.bases[id].Organization == l.who.Organization {
			ids = append(ids, id)
		}
	}
	return ids
}

func (l librarian) documentsOf(base string) (ids []string) {
	for _, id := range sortedKeys(l.library.documents.now) {
		if l.library.documents.now[id].KnowledgeBase == base {
			ids = append(ids, id)
		}
	}
	return ids
}

// expect allows errors of the index, in addition to the problems that any request may get.
func (l librarian) expect(err error, codes ...string) {
	if !errors.Is(err, errUnreachable) {
		l.client.expect(err, append(codes, "unavailable", "not_found")...)
	}
}

// do makes a request as the client. A request on a document or a base needs the right to it.
func (l librarian) do(
	a *actor, base, document string, request func(ctx context.Context, d *deployment, p tenant.Principal) error,
	codes ...string,
) {
	l.ask(a, func(ctx context.Context, d *deployment) {
		began, step := l.now, l.steps
		p, t, err := l.as(ctx, d, tenant.LevelRun)
		if err == nil {
			err = request(ctx, d, p)
		}
		n := need{level: tenant.LevelRun}
		groups, certain := l.library.documents.groups(base, document, step)
		if n.groups = groups; certain {
			l.checkRights(d, t, began, n, n, err)
		}
		l.expect(err, codes...)
	})
}

func (l librarian) createBase(a *actor) {
	l.do(a, "", "", func(ctx context.Context, d *deployment, p tenant.Principal) error {
		name, size, overlap := "base", 50, 10
		_, err := d.ingester.CreateBase(ctx, p, knowledge.BaseEdit{
			Name: &name, Size: &size, Overlap: &overlap, Embedding: l.model(), GroupIDs: l.groups(),
		})
		return err
	}, "invalid_request", "embedding_unavailable") // the model refuses, or cannot be reached
}

// model returns one of the embedding models.
func (l librarian) model() *catalog.EmbeddingModel {
	return &catalog.EmbeddingModel{Provider: "paid", Name: slices.Sorted(maps.Keys(models))[l.work.IntN(len(models))]}
}

// groups returns groups to which a base or a document may be restricted.
func (l librarian) groups() *[]string {
	if l.powers == nil || l.work.IntN(2) == 0 {
		return &[]string{}
	}
	return &[]string{l.powers.groups[l.who.Organization]}
}

// content returns a new document: a text, or a page of the site.
func (l librarian) content() (n knowledge.NewDocument, text string) {
	if l.work.IntN(3) == 0 {
		n.Source = catalog.Source{Kind: catalog.FromURL, URL: address(l.work.IntN(pagesOfSite))}
		return n, ""
	}
	n.Source, n.ContentType = catalog.Source{Kind: catalog.FromText}, "text/plain"
	text = l.library.written()
	n.Title = fmt.Sprintf("about %d", l.library.texts)
	return n, text
}

// receive sends the bytes of a text; a page has none.
func (l librarian) receive(
	ctx context.Context, d *deployment, n knowledge.NewDocument, organization, document, text string,
) (*knowledge.Received, error) {
	if n.Source.Kind == catalog.FromURL {
		return nil, nil //nolint:nilnil // it is fetched
	}
	return d.ingester.Receive(ctx, organization, document, strings.NewReader(text))
}

// add adds a text, or a page of the site.
func (l librarian) add(a *actor, base string) {
	groups := *l.groups()
	n, text := l.content()
	n.GroupIDs = groups
	l.do(a, base, "", func(ctx context.Context, d *deployment, p tenant.Principal) error {
		b, err := d.ingester.Check(ctx, p, base, "body.", n)
		if err != nil {
			return err
		}
		bytes, err := l.receive(ctx, d, n, b.Organization, "", text)
		if err != nil {
			return err
		}
		e, _, err := d.ingester.Add(ctx, p, b, n, bytes)
		if err == nil {
			l.library.documents.accepted(e.Value.ID)
		}
		return err
	}, "invalid_request") // too many
}

// replace gives a document other content, or that of a document of its base, perhaps its own.
func (l librarian) replace(a *actor, base, document string) {
	if document == "" {
		return
	}
	n, text := l.content()
	if like := l.library.documents.now[l.any(l.documentsOf(base))]; like.Bytes != "" && l.work.IntN(3) == 0 {
		n.Source, text = catalog.Source{Kind: catalog.FromText}, l.library.documents.textOf(like.Bytes)
	}
	l.do(a, base, document, func(ctx context.Context, d *deployment, p tenant.Principal) error {
		step := l.steps
		bytes, err := l.receive(ctx, d, n, l.who.Organization, document, text)
		if err != nil {
			return err
		}
		_, _, err = d.ingester.ReplaceContent(ctx, p, base, document, 0, n, bytes)
		if err == nil && bytes != nil {
			l.library.documents.took(step, document, text)
		}
		d.ingester.Discard(ctx, bytes)
		return err
	})
}

func (l librarian) reprocess(a *actor, base, document string) {
	if document == "" || l.work.IntN(3) == 0 {
		l.do(a, base, "", func(ctx context.Context, d *deployment, p tenant.Principal) error {
			_, err := d.ingester.ReprocessFailed(ctx, p, base)
			return err
		})
		return
	}
	l.do(a, base, document, func(ctx context.Context, d *deployment, p tenant.Principal) error {
		_, err := d.ingester.Reprocess(ctx, p, base, document)
		return err
	})
}

func (l librarian) removeDocument(a *actor, base, document string) {
	if document == "" {
		return
	}
	l.do(a, base, document, func(ctx context.Context, d *deployment, p tenant.Principal) error {
		_, err := d.ingester.RemoveDocument(ctx, p, base, document)
		if err == nil {
			l.library.documents.removed(document)
		}
		return err
	})
}

func (l librarian) editDocument(a *actor, base, document string) {
	if document == "" {
		return
	}
	edit := knowledge.DocumentEdit{GroupIDs: l.groups()}
	if l.work.IntN(2) == 0 {
		title := fmt.Sprintf("about it %d", l.work.IntN(100))
		edit = knowledge.DocumentEdit{Title: &title}
	}
	l.do(a, base, document, func(ctx context.Context, d *deployment, p tenant.Principal) error {
		_, err := d.ingester.EditDocument(ctx, p, base, document, 0, edit)
		return err
	})
}

func (l librarian) editBase(a *actor, base string) {
	edit := knowledge.BaseEdit{GroupIDs: l.groups()}
	l.do(a, base, "", func(ctx context.Context, d *deployment, p tenant.Principal) error {
		_, err := d.ingester.EditBase(ctx, p, base, 0, edit)
		return err
	})
}

// rebuild changes the settings of a base's index.
func (l librarian) rebuild(a *actor, base string) {
	edit := knowledge.BaseEdit{Embedding: l.model()}
	if size := 50 + 10*l.work.IntN(3); l.work.IntN(2) == 0 {
		edit = knowledge.BaseEdit{Size: &size}
	}
	l.do(a, base, "", func(ctx context.Context, d *deployment, p tenant.Principal) error {
		_, err := d.ingester.EditBase(ctx, p, base, 0, edit)
		return err
	}, "invalid_request", "embedding_unavailable") // the model refuses, or cannot be reached
}

func (l librarian) cancelRebuild(a *actor, base string) {
	l.do(a, base, "", func(ctx context.Context, d *deployment, p tenant.Principal) error {
		return d.ingester.CancelRebuild(ctx, p, base)
	})
}

func (l librarian) removeBase(a *actor, base string) {
	l.do(a, base, "", func(ctx context.Context, d *deployment, p tenant.Principal) error {
		_, err := d.ingester.RemoveBase(ctx, p, base)
		if err == nil {
			l.library.documents.removed(base)
		}
		return err
	})
}

// search searches all bases for the word of a document.
func (l librarian) search(a *actor) {
	documents := l.library.documents
	var there []string
	for _, id := range sortedKeys(documents.now) {
		if documents.now[id].Organization == l.who.Organization {
			there = append(there, id)
		}
	}
	wanted := l.any(there)
	q := knowledge.Question{
		Query: documents.wordOf(wanted), Limit: mostHits,
		Mode: []ranking.Mode{ranking.Keyword, ranking.Keyword, ranking.Hybrid, ranking.Semantic}[l.work.IntN(4)],
	}
	l.ask(a, func(ctx context.Context, d *deployment) {
		if l.misses(ctx, d, q, wanted) {
			q.PerDocument = 1 // there are fewer documents than a page has hits
			l.misses(ctx, d, q, wanted)
		}
	})
}

// misses makes a search. It returns true if hits of other documents fill the page. The wanted one may be after them.
func (l librarian) misses(ctx context.Context, d *deployment, q knowledge.Question, wanted string) (full bool) {
	documents := l.library.documents
	s := searched{began: l.now, step: l.steps}
	p, t, err := l.as(ctx, d, tenant.LevelRead)
	s.text = t
	if err == nil {
		s.found, err = d.ingester.Search(ctx, p, q)
	}
	l.checkRights(d, t, s.began, need{level: tenant.LevelRead}, need{level: tenant.LevelRead}, err)
	l.expect(err, "embedding_unavailable")
	if d.remembers {
		s.began = s.began.Add(-remembered)
	}
	if err == nil {
		documents.found(l.client, s)
		full = q.Mode == ranking.Keyword && documents.missed(l.client, s, wanted, q.Query)
	}
	l.expect(d.ingester.ChargeSearch(ctx, p, s.found.Paid))
	return full
}
