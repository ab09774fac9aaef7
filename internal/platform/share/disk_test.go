package share_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/platform/share"
)

// small is a disk that organizations fill byte by byte.
type small struct {
	*share.Disk

	left int64
}

func of(organization string) context.Context {
	return share.With(context.Background(), share.Holder{Organization: organization})
}

func (s *small) fill(organization string) (took int64) {
	for s.Take(of(organization), 1) {
		took, s.left = took+1, s.left-1
	}
	return took
}

func (s *small) deletes(organization string, n int64) {
	s.left += n
	s.Give(of(organization), n)
}

func disk(left, reserve int64) *small {
	s := &small{left: left}
	s.Disk = share.NewDisk(func() int64 { return s.left }, reserve)
	return s
}

// An organization that fills a disk leaves half of the rest to the next.
func TestAnOrganizationLeavesHalfOfTheDisk(t *testing.T) {
	d := disk(200, 0)
	assert.Equal(t, int64(100), d.fill("a"), "half")
	assert.Zero(t, d.fill("a"))
	assert.Equal(t, int64(50), d.fill("b"))
	assert.Equal(t, int64(25), d.fill("c"))
	d.left -= 20
	assert.Zero(t, d.fill("b"), "another program has taken some")
	d.left = 0
	assert.Zero(t, d.fill("d"), "another program has taken all")
	d.left = -5
	assert.Zero(t, d.fill("d"), "and of the floor")
	d.left = 300
	assert.Equal(t, int64(100), d.fill("a"), "half of 300 and its own 100")
}

// An organization may store again the bytes that it has deleted. Others have no credit for them.
func TestDeletedBytesComeBackToTheirOwner(t *testing.T) {
	d := disk(200, 0)
	assert.Equal(t, int64(100), d.fill("hog"))
	assert.Equal(t, int64(50), d.fill("other"))
	d.deletes("other", 50)
	assert.Zero(t, d.fill("hog"), "it has as much as is left")
	assert.Equal(t, int64(50), d.fill("other"))
	d.deletes("hog", 130) // of which some are from an earlier process
	d.deletes("other", 50)
	assert.Equal(t, int64(115), d.fill("hog"), "half")
}

// A value is stored only if at least as many bytes stay free as the organization then has.
func TestALargeValueLeavesAsMuch(t *testing.T) {
	d := disk(200, 0)
	assert.False(t, d.Take(of("a"), 101))
	assert.True(t, d.Take(of("a"), 100))
}

// Bytes count only while less than the reserve is left.
func TestAReserveOfTheDisk(t *testing.T) {
	d := disk(1000, 200)
	assert.Equal(t, int64(900), d.fill("a"), "what is above the reserve, and half of it")
	assert.Equal(t, int64(50), d.fill("b"))
	d.left = 201
	assert.Equal(t, int64(101), d.fill("a"), "there was room again")
}
