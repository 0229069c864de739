package enclave

import (
	"encoding/hex"
	"errors"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
)

// Client is one of encrypted chats, as published ones are.
type Client struct{ own identity }

// NewClient makes one with a key of its own.
func NewClient() (*Client, error) {
	own, err := newIdentity()
	return &Client{own}, err
}

// Public is its key in 130 hexadecimal digits.
func (c *Client) Public() string { return hex.EncodeToString(c.own.public()) }

// Seal seals a text to a model's key.
func (c *Client) Seal(model, text string) (string, error) {
	raw, err := hex.DecodeString(model)
	if err != nil {
		return "", err
	}
	to, err := secp256k1.ParsePubKey(raw)
	if err != nil {
		return "", err
	}
	return seal(to, text)
}

// Open opens a text that was sealed to the client.
func (c *Client) Open(text string) (string, error) {
	plain, err := c.own.open(text)
	if err != nil {
		return "", errors.New("it is not sealed to this client: " + err.Error())
	}
	return plain, nil
}
