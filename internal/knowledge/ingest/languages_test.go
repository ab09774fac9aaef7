package ingest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/proof/memindex"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/index"
	"agentplatform/internal/text/ranking"
)

// inLanguages is one sentence in eight languages.
var inLanguages = []struct{ language, text string }{
	{"en", "The ordered goods are delivered to the customer on the next day, and the invoice comes with them."},
	{"de", "Die bestellten Waren werden dem Kunden am nächsten Tag geliefert, und die Rechnung liegt ihnen bei."},
	{"fr", "Les marchandises commandées sont livrées au client le lendemain, et la facture est avec elles."},
	{"es", "Las mercancías pedidas se entregan al cliente al día siguiente, y la factura viene con ellas."},
	{"it", "Le merci ordinate sono consegnate al cliente il giorno dopo, e la fattura è con loro nel pacco."},
	{"nl", "De bestelde goederen worden de volgende dag aan de klant geleverd, en de rekening zit er bij."},
	{"sv", "De beställda varorna levereras till kunden nästa dag, och fakturan kommer med dem i paketet."},
	{"ru", "Заказанные товары доставляются покупателю на следующий день, и счёт приходит вместе с ними."},
}

// keyword are the documents that a search by words finds, best first.
func (w *world) keyword(query string) []string {
	w.Helper()
	found, err := w.knowledge.Search(w.Context(), w.admin,
		knowledge.Question{Query: query, Mode: ranking.Keyword, Limit: 50})
	require.NoError(w, err)
	var ids []string
	for _, h := range found.Hits {
		ids = append(ids, h.Document.ID)
	}
	return ids
}

func TestEveryLanguageOfABaseIsSearched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		ids := map[string]string{}
		for n, l := range inLanguages {
			for i := range len(inLanguages) - n { // the last languages are the rarest
				id := w.ready(b, fmt.Sprintf("%s %d.", l.text, i))
				ids[l.language] = id
				require.Equal(t, l.language, w.read(id).Ready.Analysed())
			}
		}
		for query, language := range map[string]string{
			"varorna": "sv", "товары": "ru", "заказанные товары": "ru", "bestelde": "nl", "goederen": "nl",
			"товар": "ru",
		} {
			assert.Contains(t, w.keyword(query), ids[language], query)
		}
	})
}

// A word must not become rare because the language of a document is: the variants of a word are one.
func TestAWordIsNotRareBecauseALanguageIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		unknown := w.ready(b, "engines 4711 4712") // the first of its base
		require.Empty(t, w.read(unknown).Ready.Analysed())
		var right []string
		for i := range 30 {
			text := fmt.Sprintf("The engine of the plane is in the wings and it is not as loud, number %d.", i)
			if i%10 == 0 {
				right = append(right, w.ready(b, "It is of steel. "+text))
				continue
			}
			w.ready(b, text)
		}
		found := w.keyword("steel engines")
		require.Len(t, found, 31)
		assert.ElementsMatch(t, right, found[:3], "those that have the rare word")
	})
}

// Stop words have no weight, also in a document whose language was taken for another one, or is unknown.
func TestStopWordsOfOtherDocumentsAreNotSearched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		unknown := w.ready(b, "of xqzt wvrk zzkq brtl") // the first of its base
		require.Empty(t, w.read(unknown).Ready.Analysed())
		french := w.ready(b, "Le prix of the machine est dans la liste, et elle est sur la table avec les autres.")
		require.Equal(t, "fr", w.read(french).Ready.Analysed())
		var ids []string
		for i := range 10 {
			text := fmt.Sprintf("The measurement of the constant is an art of its own, number %d.", i)
			ids = append(ids, w.ready(b, text))
		}
		assert.ElementsMatch(t, ids, w.keyword("the measurement of it"))
		assert.Contains(t, w.keyword("xqzt of"), unknown)
		assert.NotEmpty(t, w.keyword("of the"), "nothing else was asked")
	})
}

// A text whose language cannot be detected, or hardly, gets the language of most documents of its base.
func TestAShortTextIsInTheLanguageOfItsBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		first := w.ready(b, "Preisliste Schrauben")
		assert.Empty(t, w.read(first).Ready.Analysed(), "nothing is known yet")
		assert.Equal(t, []string{first}, w.keyword("Schrauben"))
		for i := range 3 {
			w.ready(b, fmt.Sprintf("Die Lieferung der Waren ist nicht vor dem nächsten Tag zu erwarten, Nummer %d.", i))
		}
		short := w.ready(b, "Preisliste Maschinen")
		assert.Equal(t, "de", w.read(short).Ready.Analysed())
		assert.Equal(t, []string{short}, w.keyword("Maschine"))
		other := w.ready(b, "The list of the prices is not in the parcel, as it was sent to you before.")
		assert.Equal(t, "en", w.read(other).Ready.Analysed(), "a text that tells it")
	})
}

// Chunks that an earlier version has indexed are found before and while the index is filled again.
func TestWhatAnEarlierVersionHasIndexedIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := record.Create(t.Context(), w.store, w.organization(), w.host.NewID())
		require.NoError(t, err)
		w.knowledge.IndexID = "disk"
		b := w.base()
		id := w.ready(b, inLanguages[6].text)
		version := w.index.Versions()[0]
		*w.index = memindex.Index{}
		old := index.Chunk{Length: 2, Vector: make([]float32, w.read(id).Ready.Dimensions),
			Terms: []index.Term{{Text: "var", Weight: 1}, {Text: "=och", Weight: 1}}} // stems alone
		require.NoError(t, w.index.Put(t.Context(), version, len(old.Vector), []index.Chunk{old}))
		assert.Equal(t, []string{id}, w.keyword("varorna"))
		assert.Empty(t, w.keyword("paketet"))

		w.knowledge.IndexID = knowledge.IndexID("disk")
		w.model.fail = func() error { panic("a model is asked") }
		require.NoError(t, w.ingester.Recover(t.Context()))
		assert.Equal(t, knowledge.IndexRebuilding, w.state(b.ID).State)
		assert.Equal(t, []string{id}, w.keyword("varorna"), "meanwhile")
		assert.Equal(t, knowledge.IndexReady, w.rebuilt(b.ID).State)
		assert.Equal(t, []string{id}, w.keyword("paketet"))
	})
}

// A client may set the language of a document or of its base. After a change the document is indexed again, without
// embeddings.
func TestALanguageThatIsSetCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		id := w.ready(b, "Preisliste Maschinen")
		other := w.ready(b, "The list of the prices is not in the parcel, as it was sent to you before.")
		assert.Empty(t, w.keyword("Maschine"))
		w.model.fail = func() error { panic("a model is asked") }

		german, none, auto := "de", "xx", knowledge.Auto
		_, err := w.knowledge.EditDocument(t.Context(), w.admin, b.ID, id, 0, knowledge.DocumentEdit{Language: &none})
		require.ErrorContains(t, err, "body.language")
		_, err = w.knowledge.EditDocument(t.Context(), w.admin, b.ID, id, 0, knowledge.DocumentEdit{Language: &german})
		require.NoError(t, err)
		w.ingest(id)
		assert.Equal(t, "de", w.read(id).Ready.Analysed())
		assert.Equal(t, []string{id}, w.keyword("Maschine"))

		_, err = w.knowledge.EditBase(t.Context(), w.admin, b.ID, 0, knowledge.BaseEdit{Language: &none})
		require.ErrorContains(t, err, "body.language")
		_, err = w.knowledge.EditBase(t.Context(), w.admin, b.ID, 0, knowledge.BaseEdit{Language: &german})
		require.NoError(t, err)
		assert.Equal(t, knowledge.IndexRebuilding, w.state(b.ID).State)
		assert.Equal(t, []string{other}, w.keyword("prices"), "meanwhile")
		assert.Equal(t, knowledge.IndexReady, w.rebuilt(b.ID).State)
		w.settle()
		assert.Equal(t, "de", w.read(other).In(w.readBase(b.ID).Collection).Ready.Analysed())
		assert.Equal(t, []string{other}, w.keyword("prices"))
		assert.Equal(t, []string{id}, w.keyword("Maschine"))

		_, err = w.knowledge.EditBase(t.Context(), w.admin, b.ID, 0, knowledge.BaseEdit{Language: &auto})
		require.NoError(t, err)
		w.rebuilt(b.ID)
		w.settle()
		assert.Equal(t, "en", w.read(other).In(w.readBase(b.ID).Collection).Ready.Analysed())
	})
}

// A client may send back the title and the language that a document shows. Nothing is indexed again, and new content
// may have others.
func TestWhatADocumentShowsIsSentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.base()
		bytes, err := w.knowledge.Receive(t.Context(), b.Organization, "", strings.NewReader(inLanguages[0].text))
		require.NoError(t, err)
		e, _, err := w.knowledge.Add(t.Context(), w.admin, b, knowledge.NewDocument{
			Source: catalog.Source{Kind: catalog.FromText}, ContentType: "text/plain",
		}, bytes)
		require.NoError(t, err)
		id := e.Value.ID
		w.ingest(id)
		before := w.read(id)
		language := before.Ready.Analysed()
		require.Equal(t, "en", language)
		edit := func(e knowledge.DocumentEdit) catalog.Document {
			_, err := w.knowledge.EditDocument(t.Context(), w.admin, b.ID, id, 0, e)
			require.NoError(t, err)
			return w.read(id)
		}
		d := edit(knowledge.DocumentEdit{Title: &before.Title, Language: &language})
		assert.Equal(t, []any{false, "", false}, []any{d.Titled, d.Language, d.Ingestion.Active()})
		other := "de"
		d = edit(knowledge.DocumentEdit{Language: &other})
		assert.Equal(t, []any{"de", true}, []any{d.Language, d.Ingestion.Active()})
	})
}
