package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/manifold-oci/manifold/ref"
)

// maxPage bounds one page of a list in bytes; a repository with a hundred
// thousand long tags fits.
const maxPage = 32 << 20

// Tags lists the tags of the repository, in the order of the registry. One GET
// per page, following the Link of each page as it is given. A repository without
// tags has none; one that does not exist is an [Absent] error. A name that cannot
// be a tag is an error: it would be part of paths. After an error
// the list is not complete, and nothing follows it.
func (r *Repository) Tags(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		seen := map[string]bool{}
		c := r.on(opListTags, "")
		c.path = "tags/list"
		for more := true; more; {
			page, next, err := r.tagPage(ctx, c)
			if err == nil {
				err = r.advance(&c, page, next, seen)
			}
			if err != nil {
				yield("", err)
				return
			}
			for _, tag := range page {
				if !yield(tag, nil) {
					return
				}
			}
			more = next != nil
		}
	}
}

func (r *Repository) tagPage(ctx context.Context, c call) (tags []string, next *url.URL, err error) {
	resp, err := r.do(ctx, c, http.StatusOK)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	var v struct {
		Tags []string `json:"tags"`
	}
	b, err := readDocument(resp, maxPage)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err == nil && !isObject(b) {
		err = errors.New("not a list of tags")
	}
	if i := slices.IndexFunc(v.Tags, notTag); err == nil && i >= 0 {
		err = fmt.Errorf("%q is listed, which cannot be a tag", line(v.Tags[i]))
	}
	if err != nil {
		return nil, nil, r.failed(c, err)
	}
	next, err = r.next(resp)
	if err != nil {
		return nil, nil, r.failed(c, err)
	}
	return v.Tags, next, nil
}

func notTag(s string) bool { return !ref.IsTag(s) }

func isObject(b []byte) bool { return jsontext.Value(b).Kind() == '{' }

// next is the URL of the page after this one, nil when it is the last.
func (r *Repository) next(resp *http.Response) (*url.URL, error) {
	link := nextLink(resp.Header.Values("Link"))
	if link == "" {
		return nil, nil
	}
	u, err := resp.Request.URL.Parse(link)
	if err != nil {
		return nil, fmt.Errorf("link to the next page: %w", clean(err))
	}
	if u.Host != r.host.name {
		return nil, fmt.Errorf("link to the next page is on another host, %s", u.Host)
	}
	u.User, u.Fragment = nil, ""
	return u, nil
}

// advance turns to the next page, unless the list goes round in circles: then
// it cannot be known to be complete.
func (r *Repository) advance(c *call, page []string, next *url.URL, seen map[string]bool) error {
	fresh := len(page) == 0
	for _, tag := range page {
		fresh = fresh || !seen[tag]
		seen[tag] = true
	}
	if next == nil {
		return nil
	}
	visited := "\x00" + next.String()
	if !fresh || seen[visited] {
		return r.failed(*c, errors.New("the pages of the list repeat themselves"))
	}
	seen[visited] = true
	c.at = next
	return nil
}
