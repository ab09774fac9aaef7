// Package left is in a folder that is left out.
package left
