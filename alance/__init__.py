"""Asyncio, object-store-native access to Lance tables."""
