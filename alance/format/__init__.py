"""File and table formats: conversion of bytes to arrays and metadata, and back, without I/O."""
