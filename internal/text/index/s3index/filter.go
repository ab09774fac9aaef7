package s3index

import "agentplatform/internal/text/index"

// filter is what a query admits, as JSON:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-metadata-filtering.html
type filter map[string]any

// A filter has at most 100 constraints: each value in a comparison is one. Documents and terms share them.
const (
	mostConstraints = 100
	mostDocuments   = 50 // of a filter; where a query names more, several filters have some each
	mostTerms       = 64
)

func ofVersion(v index.Version) filter { return filter{keyOfVersion: filter{"$eq": versionName(v)}} }

func ofDocuments(ids []string) filter {
	if len(ids) == 0 {
		return nil
	}
	names := make([]string, 0, len(ids))
	for _, id := range ids {
		names = append(names, documentName(id))
	}
	return filter{keyOfDocument: filter{"$in": names}}
}

// with admits chunks that have a term: a comparison with a list is true when one of its elements is equal.
func with(t term) filter { return filter{keyOfTerms: filter{"$eq": t.name()}} }

// all admits chunks that each of the filters admits, either those that one of them admits. Nil filters do not count.
func all(filters ...filter) filter    { return joined("$and", filters) }
func either(filters ...filter) filter { return joined("$or", filters) }

func joined(operator string, filters []filter) filter {
	var some []filter
	for _, f := range filters {
		if f != nil {
			some = append(some, f)
		}
	}
	switch len(some) {
	case 0:
		return nil
	case 1:
		return some[0]
	}
	return filter{operator: some}
}
