// Package models has the models that the examples train and the benchmarks measure: GPT, a transformer that predicts the next
// token, and ResNet, a convolutional network for small images. They are built of the layers of autograd/nn as a user
// would build them, and their parameters have the names that they have in PyTorch.
package models
